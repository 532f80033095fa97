// SPDX-License-Identifier: Apache-2.0
// Each check is one function from facts to a verdict, so that every verdict can be tested without its cause.
#include <set>

#include "cli/doctor.h"
#include "cli/format.h"

namespace nd::cli {
namespace {

constexpr std::uint64_t kEnoughMemlock = 64ULL << 20;
constexpr std::uint64_t kEnoughDescriptors = 1024;

Verdict Pass(std::string name, std::string finding) {
  return {std::move(name), "PASS", std::move(finding), {}};
}
Verdict Warn(std::string name, std::string finding, std::string remedy) {
  return {std::move(name), "WARN", std::move(finding), std::move(remedy)};
}
Verdict Fail(std::string name, std::string finding, std::string remedy) {
  return {std::move(name), "FAIL", std::move(finding), std::move(remedy)};
}

std::string Join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

Verdict JudgeDirectory(const Facts& facts) {
  const DirectoryFact& d = facts.chosen;
  const char* name = "directory";
  if (!d.exists) {
    return Fail(
        name, d.path + " does not exist",
        "start ndbrokerd (systemctl start ndbrokerd), or name its directory with --address or $NDBROKER_DIR");
  }
  if (!d.is_directory)
    return Fail(name, d.path + " is not a directory", "name the broker's directory with --address DIR");
  if (d.is_link)
    return Fail(name, d.path + " is a symbolic link, which the broker refuses", "replace it by a directory");
  if ((d.mode & 022) != 0 && (d.mode & 01000) == 0) {
    return Fail(name, d.path + " can be written by others, who could put their own sockets there",
                "chmod go-w " + d.path);
  }
  return Pass(name, d.path + ", of uid " + std::to_string(d.owner));
}

// Judges the sockets for applications. The answer of the broker judges the admin socket.
Verdict JudgeSockets(const Facts& facts) {
  // A broker may be told to serve no gRPC (grpc of [broker]).
  const bool lane_alone =
      facts.chosen.lane.state == SocketState::kAnswers && facts.chosen.broker.state == SocketState::kAbsent;
  if (lane_alone) {
    return Pass("sockets", "lane.sock accepts applications of uid " + std::to_string(facts.uid) +
                               "; the broker serves no gRPC to them");
  }
  for (const SocketFact* socket : {&facts.chosen.broker, &facts.chosen.lane}) {
    switch (socket->state) {
      case SocketState::kAnswers:
        break;
      case SocketState::kAbsent:
        return Fail("sockets", socket->path + " does not exist",
                    "start ndbrokerd; it makes its sockets itself");
      case SocketState::kStale:
        return Fail("sockets", socket->path + " is left over from a broker that ended",
                    "start ndbrokerd; it replaces the sockets that are left over");
      case SocketState::kForbidden:
        return Fail("sockets", "uid " + std::to_string(facts.uid) + " may not use " + socket->path,
                    "set client-socket-mode or client-socket-group in [broker], or join that group");
      case SocketState::kSilent:
        return Fail("sockets", socket->path + " does not accept connections",
                    "the broker hangs or is out of descriptors; see its log");
    }
  }
  return Pass("sockets", "broker.sock and lane.sock accept applications of uid " + std::to_string(facts.uid));
}

Verdict JudgeOthers(const Facts& facts, const BrokerFacts& broker) {
  std::vector<std::string> live, stale;
  for (const DirectoryFact& other : facts.others) {
    if (other.admin.state == SocketState::kStale || other.broker.state == SocketState::kStale) {
      stale.push_back(other.path);
    } else if (other.broker.state != SocketState::kAbsent || other.lane.state != SocketState::kAbsent) {
      live.push_back(other.path);
    }
  }
  if (!live.empty()) {
    return Warn("other brokers", "another broker serves " + Join(live),
                "applications find one of them by $NDBROKER_DIR; stop the one that is not wanted");
  }
  if (facts.broker_pids.size() > 1) {
    std::vector<std::string> pids;
    for (const std::uint32_t pid : facts.broker_pids) pids.push_back(std::to_string(pid));
    return Warn("other brokers", "several ndbrokerd run: pids " + Join(pids),
                "fine in containers and tests; otherwise stop the ones that are not wanted");
  }
  if (!stale.empty()) {
    return Warn("other brokers", "left-over sockets in " + Join(stale),
                "remove that directory when nobody uses it");
  }
  return Pass("other brokers", broker.answers ? "this one alone" : "none");
}

Verdict JudgeVersions(const Facts& facts, const BrokerFacts& broker) {
  std::set<std::string> versions = {facts.ndctl_version};
  std::string finding = "ndctl " + facts.ndctl_version;
  if (broker.answers) {
    versions.insert(broker.version);
    finding += ", ndbrokerd " + broker.version;
  }
  for (const std::string& library : facts.libraries) {
    versions.insert(library);
    finding += ", libndbroker " + library;
  }
  if (versions.size() == 1) return Pass("versions", finding);
  return Warn("versions", finding, "install one version of all, then restart ndbrokerd and the applications");
}

Verdict JudgeService(const Facts& facts, const BrokerFacts& broker) {
  const char* name = "service";
  const ServiceFact& s = facts.service;
  std::string finding;
  if (!s.drop_ins.empty()) finding = ", changed by " + Join(s.drop_ins);
  if (s.broker_unit == "ndbrokerd.service") {
    finding = s.broker_unit + finding;
    if (s.unit_installed && !s.unit_enabled) {
      return Warn(name, finding + ", which is not started at boot", "systemctl enable ndbrokerd.service");
    }
    return Pass(name, finding);
  }
  if (!s.unit_installed) {
    return Pass(name, broker.answers ? "the broker was started by hand; no unit is installed"
                                     : "no unit is installed");
  }
  if (!broker.answers) {
    return Warn(name, "ndbrokerd.service is installed" + finding + ", and no broker answers",
                "systemctl status ndbrokerd.service says why; systemctl start ndbrokerd.service");
  }
  return Warn(name,
              "the broker (pid " + std::to_string(broker.pid) +
                  ") does not belong to ndbrokerd.service, which is installed",
              "stop it, then systemctl start ndbrokerd.service; or name the other directory with --address");
}

Verdict JudgeSandbox(const Facts& facts) {
  const char* name = "sandbox";
  const ServiceFact& s = facts.service;
  constexpr std::uint64_t kLockMemory = std::uint64_t{1} << 14;  // CAP_IPC_LOCK
  if (!s.sandbox_known) return Pass(name, "unknown: no broker, or its process cannot be seen from here");
  std::vector<std::string> missing;
  if (!s.filters_system_calls) missing.push_back("a filter of system calls");
  if (!s.no_new_privileges) missing.push_back("NoNewPrivileges");
  const bool privileged = (s.capabilities & ~kLockMemory) != 0;
  if (privileged) missing.push_back("bounded capabilities");
  if (missing.empty())
    return Pass(name, "system calls filtered, no new privileges, no capability but CAP_IPC_LOCK");
  if (s.broker_unit != "ndbrokerd.service") {
    return Pass(name, "none: the broker was started by hand");
  }
  return Warn(
      name, "the service lacks " + Join(missing),
      "systemd-analyze security ndbrokerd.service; systemctl cat ndbrokerd.service shows what changed it");
}

Verdict JudgePackages(const Facts& facts, const BrokerFacts& broker) {
  const char* name = "packages";
  if (facts.packages.empty()) return Pass(name, "none of Debian's");
  std::set<std::string> versions;
  std::string finding;
  for (const PackageFact& package : facts.packages) {
    if (!package.whole) {
      return Fail(name, package.name + " " + package.version + " is only half installed",
                  "dpkg --configure -a, or apt-get -f install");
    }
    versions.insert(package.version);
    finding += (finding.empty() ? "" : ", ") + package.name + " " + package.version;
  }
  if (versions.size() > 1) return Warn(name, finding, "apt-get install all of them in one version");
  const std::string& version = *versions.begin();
  if (broker.answers && facts.service.broker_unit == "ndbrokerd.service" &&
      !version.starts_with(broker.version + "-")) {
    return Warn(name, finding + ", but ndbrokerd " + broker.version + " runs",
                "systemctl restart ndbrokerd.service");
  }
  return Pass(name, finding);
}

Verdict JudgeNetwork(const Facts& facts, const BrokerFacts& broker) {
  const char* name = "network namespace";
  if (!broker.answers) return Pass(name, "not compared: no broker answers");
  if (facts.own_network.empty() || broker.network.empty()) {
    return Pass(name, "cannot be compared with the broker's as this user");
  }
  if (facts.own_network == broker.network) return Pass(name, "the broker's");
  return Warn(
      name,
      "not the broker's: its adapters have no addresses for programs started here, unless it serves them",
      "start them in its namespace, or set foreign-network-namespaces in [broker] to \"serve\" (their own "
      "addresses) or \"allow\" (the broker's)");
}

Verdict JudgeMemlock(const Facts& facts) {
  if (facts.rdma_devices.empty()) return Pass("memlock", "not needed: no RDMA device, soft locks no memory");
  const bool none = facts.memlock == UINT64_MAX;
  const std::string finding = none ? "no limit" : HumanBytes(static_cast<double>(facts.memlock));
  if (none || facts.memlock >= kEnoughMemlock) return Pass("memlock", finding);
  return Warn(
      "memlock", finding + " of memory may be locked, too little to register buffers on a device",
      "ulimit -l unlimited, memlock in /etc/security/limits.conf, or LimitMEMLOCK=infinity in the unit");
}

Verdict JudgeDevices(const Facts& facts) {
  const char* name = "RDMA devices";
  if (facts.rdma_devices.empty()) return Pass(name, "none; the soft provider needs none");
  const std::string devices = Join(facts.rdma_devices);
  if (!facts.verbs_nodes)
    return Fail(name, devices + " without /dev/infiniband/uverbs*", "modprobe ib_uverbs");
  if (!facts.cm_node) return Fail(name, devices + " without /dev/infiniband/rdma_cm", "modprobe rdma_ucm");
  if (!facts.verbs_usable || !facts.cm_usable) {
    return Warn(name, devices + ": uid " + std::to_string(facts.uid) + " may not open /dev/infiniband/*",
                "join the group of these nodes (often rdma), or fix the udev rule");
  }
  const std::string mode =
      facts.rdma_namespaces.empty() ? "" : ", network namespaces " + facts.rdma_namespaces;
  return Pass(name, devices + mode);
}

Verdict JudgeDescriptors(const Facts& facts) {
  const std::string finding = std::to_string(facts.descriptors) + " descriptors for programs started here";
  if (facts.descriptors >= kEnoughDescriptors) return Pass("descriptors", finding);
  return Warn("descriptors", finding + "; each connection takes one or two", "ulimit -n 65536");
}

Verdict JudgeMemory(const Facts& facts) {
  if (facts.sealed_memory) return Pass("sealed memory", "memfd_create works");
  return Fail("sealed memory", "memfd_create or its seals are not allowed here",
              "allow memfd_create and fcntl(F_ADD_SEALS) in the seccomp profile");
}

Verdict JudgeClock(const Facts& facts) {
  if (facts.clock_synchronized) return Pass("clock", "synchronized");
  return Warn("clock", "not synchronized; times of different hosts cannot be compared",
              "run chrony or systemd-timesyncd");
}

}  // namespace

Verdict JudgeBroker(const std::vector<std::uint32_t>& pids, const BrokerFacts& broker) {
  if (broker.answers && broker.draining) {
    return Warn("broker", "draining: it takes nothing new", "ndctl undrain takes new work again");
  }
  if (broker.answers) {
    return Pass("broker", "version " + broker.version + ", pid " + std::to_string(broker.pid) + ", up " +
                              HumanSeconds(broker.uptime));
  }
  std::string hint = broker.hint;
  if (!pids.empty()) {
    hint = "an ndbrokerd runs (pid " + std::to_string(pids[0]) +
           ") but not here; its command line says with which --dir";
  }
  return Fail("broker", broker.problem, hint);
}

std::vector<Verdict> Judge(const Facts& facts, const BrokerFacts& broker) {
  return {JudgeDirectory(facts),        JudgeBroker(facts.broker_pids, broker),
          JudgeSockets(facts),          JudgeOthers(facts, broker),
          JudgeService(facts, broker),  JudgeSandbox(facts),
          JudgePackages(facts, broker), JudgeVersions(facts, broker),
          JudgeNetwork(facts, broker),  JudgeMemlock(facts),
          JudgeDevices(facts),          JudgeDescriptors(facts),
          JudgeMemory(facts),           JudgeClock(facts)};
}

}  // namespace nd::cli
