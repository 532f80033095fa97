// SPDX-License-Identifier: Apache-2.0
// One small function for each subject: the fact as found, and its remedy.
#include "daemon/admin/diagnosis.h"

#include <algorithm>
#include <cstdio>

#include "base/os/error_text.h"

namespace nd::service {
namespace {

using Verdict = Finding::Verdict;

Finding Pass(std::string name, std::string finding) {
  return {std::move(name), Verdict::kPass, std::move(finding), ""};
}
Finding Warn(std::string name, std::string finding, std::string remedy) {
  return {std::move(name), Verdict::kWarn, std::move(finding), std::move(remedy)};
}
Finding Fail(std::string name, std::string finding, std::string remedy) {
  return {std::move(name), Verdict::kFail, std::move(finding), std::move(remedy)};
}

std::string Octal(std::uint32_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", mode & 07777);
  return text;
}

std::string Seconds(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", std::chrono::duration<double>(duration).count());
  return text;
}

Finding Descriptors(const HealthFacts& f) {
  const std::string name = "descriptor limit";
  const std::string have = std::to_string(f.fds_open) + " of " + std::to_string(f.fd_limit) + " are open";
  const std::string remedy = "Raise LimitNOFILE of the service (or ulimit -n) and restart the broker.";
  if (f.fds_open >= f.fd_limit / 10 * 9) return Fail(name, have + ".", remedy);
  if (f.fds_open + f.fds_wanted > f.fd_limit) {
    return Warn(name,
                have + "; the limits of the configuration allow " + std::to_string(f.fds_wanted) + " more.",
                remedy);
  }
  return Pass(name, have + ".");
}

Finding Memlock(const HealthFacts& f) {
  const std::string name = "memlock";
  if (!f.memlock) return Pass(name, "unlimited.");
  const std::string have = std::to_string(*f.memlock / 1024) + " KiB";
  if (std::ranges::none_of(f.adapters, &HealthFacts::Adapter::pins_memory)) {
    return Pass(name, have + "; no adapter pins memory.");
  }
  if (*f.memlock >= 64u << 20) return Pass(name, have + ".");
  return Warn(
      name, have + " for the broker, and likely no more for applications that register memory.",
      "Set LimitMEMLOCK=infinity for the applications' services, or memlock in /etc/security/limits.d.");
}

void Directory(const HealthFacts& f, std::vector<Finding>* out) {
  const std::string name = "runtime directory";
  const HealthFacts::File& d = f.directory;
  if (d.error != 0) {
    out->push_back(Fail(name, d.path + ": " + os::ErrorText(d.error) + ".", "Restart the broker."));
  } else if (d.uid != f.own_uid || (d.mode & 0022) != 0) {
    out->push_back(Fail(name,
                        d.path + " has owner " + std::to_string(d.uid) + " and mode " + Octal(d.mode) +
                            ": others can put their own sockets there.",
                        "chown it to uid " + std::to_string(f.own_uid) + " and chmod go-w it."));
  } else {
    out->push_back(Pass(name, d.path + ", mode " + Octal(d.mode) + "."));
  }
  for (const HealthFacts::File& socket : f.sockets) {
    if (socket.error == 0) continue;
    out->push_back(Fail(name, socket.path + ": " + os::ErrorText(socket.error) + ".",
                        "It was removed: restart the broker; connections continue."));
  }
}

void Adapters(const HealthFacts& f, std::vector<Finding>* out) {
  if (f.adapters.empty()) {
    out->push_back(Fail("adapters", "There is none.", "Add an [[adapter]] to the configuration."));
  }
  for (const HealthFacts::Adapter& adapter : f.adapters) {
    const std::string name = "adapter " + adapter.name;
    if (!adapter.problem.empty()) {
      out->push_back(Fail(name, adapter.problem, "Correct the named problem; see docs/verbs.md."));
    } else if (!adapter.enabled) {
      out->push_back(Warn(name, "It is disabled.", "ndctl adapter enable " + adapter.name));
    } else if (adapter.addresses == 0) {
      out->push_back(Warn(name, "It has no address of this host.",
                          "Bring its network interface up, or correct \"addresses\" of its [[adapter]]."));
    } else {
      out->push_back(Pass(name, "enabled, with " + std::to_string(adapter.addresses) + " addresses."));
    }
  }
}

Finding Network(const HealthFacts& f) {
  const std::string name = "network namespace";
  if (!f.initial_network) return Pass(name, "unknown: the kernel does not show the namespace of process 1.");
  if (*f.initial_network) return Pass(name, "that of process 1.");
  return Warn(name, "another than that of process 1: programs of the host cannot use the broker's addresses.",
              "Run the broker in the host's network namespace, unless it serves only this one.");
}

Finding ClockOf(const HealthFacts& f) {
  const std::string name = "clock";
  if (!f.clock_is_set) {
    return Warn(name,
                "The time of day is before this program existed; times in events and history are wrong.",
                "Set the clock (timedatectl set-ntp true).");
  }
  if (f.suspended >= std::chrono::seconds(1)) {
    return Warn(name,
                "The host was suspended for " + Seconds(f.suspended) +
                    " since its boot; no timeout ran meanwhile, and peers may have given up.",
                "Keep hosts with connections from being suspended (systemctl mask sleep.target).");
  }
  return Pass(name, "set, and never suspended since boot.");
}

Finding LogLevelOf(const HealthFacts& f) {
  const std::string name = "log level";
  if (f.log_level == "off") {
    return Warn(name, "Nothing is logged.", "Set log-level in [broker] to \"info\" and reload.");
  }
  if (f.log_level == "trace" || f.log_level == "debug") {
    return Warn(name, f.log_level + ": one line for every event costs time.",
                "Set log-level in [broker] to \"info\" and reload, once it is no longer needed.");
  }
  return Pass(name, f.log_level + ".");
}

void Quotas(const HealthFacts& f, std::vector<Finding>* out) {
  if (f.near_quota.empty()) out->push_back(Pass("quotas", "No user has reached nine tenths of a quota."));
  for (const HealthFacts::Usage& usage : f.near_quota) {
    const std::string finding = "uid " + std::to_string(usage.uid) + " has " + std::to_string(usage.used) +
                                " of " + std::to_string(usage.limit) + " " + usage.resource + ".";
    const std::string remedy =
        "Raise \"" + std::string(usage.resource) +
        "\" in the quota of a [[rule]] for it and reload, or close what it does not need.";
    const bool full = usage.used >= usage.limit;
    out->push_back(full ? Fail("quotas", finding, remedy) : Warn("quotas", finding, remedy));
  }
}

void Ports(const HealthFacts& f, std::vector<Finding>* out) {
  for (const HealthFacts::Port& port : f.ports) {
    if (port.error == 0) {
      out->push_back(Pass("TCP port", port.address + " answers."));
    } else {
      out->push_back(Fail("TCP port", port.address + ": " + os::ErrorText(port.error) + ".",
                          "Check the firewall rules for the port, and that the address is up."));
    }
  }
}

Finding PeerPidfd(const HealthFacts& f) {
  if (f.peer_pidfd) return Pass("SO_PEERPIDFD", "The kernel has it.");
  return Warn("SO_PEERPIDFD",
              "The kernel lacks it; a process is identified by its pid alone, which can be reused.",
              "Use Linux 6.5 or newer.");
}

void Devices(const HealthFacts& f, std::vector<Finding>* out) {
  const std::string name = "/dev/infiniband";
  bool wrong = false;
  for (const HealthFacts::File& device : f.devices) {
    if (device.error == 0 && (device.mode & 0006) == 0006) continue;
    wrong = true;
    out->push_back(Warn(name,
                        device.path +
                            (device.error != 0 ? std::string(": ") + os::ErrorText(device.error)
                                               : " has mode " + Octal(device.mode)) +
                            ": ordinary users cannot use RDMA devices.",
                        "Install rdma-core's udev rules, or chmod 0666 it."));
  }
  if (wrong) return;
  out->push_back(Pass(name, f.devices.empty()
                                ? "There are no RDMA devices."
                                : std::to_string(f.devices.size()) + " nodes, open to everybody."));
}

Finding Stall(const HealthFacts& f) {
  const std::string finding = "The longest was " + Seconds(f.longest_stall) + ".";
  const std::string remedy =
      "Check for a host without free CPU (ndctl stats, top) or a stopped broker process.";
  if (f.longest_stall >= std::chrono::seconds(1)) return Fail("loop stall", finding, remedy);
  if (f.longest_stall >= std::chrono::milliseconds(100)) return Warn("loop stall", finding, remedy);
  return Pass("loop stall", finding);
}

std::string Bytes(std::uint64_t bytes) {
  return bytes < 10240 ? std::to_string(bytes) + " bytes" : std::to_string(bytes / 1024) + " KiB";
}

// Returns "; it failed 3 times, the last time: no space", or nothing without failures.
std::string Failures(std::uint64_t times, const std::string& last) {
  if (times == 0 && last.empty()) return "";
  return "; writing failed" + (times == 0 ? std::string() : " " + std::to_string(times) + " times") +
         " since the start, the last time: " + last;
}

Finding LeaseJournal(const HealthFacts& f) {
  const std::string name = "lease journal";
  const std::string& path = f.journal_file.path;
  const std::string remedy =
      "Free space in its file system and make it writable; the broker retries by itself.";
  if (!f.journal.journaled) {
    return Fail(name,
                path + " is not written: " + f.journal.problem +
                    ". If the broker ended now, no port would be kept for its owner.",
                remedy);
  }
  if (f.journal_file.error != 0) {
    return Fail(name, path + ": " + os::ErrorText(f.journal_file.error) + ", though it is being written.",
                "It was removed: restart the broker; connections continue.");
  }
  const std::string state = path + ", " + Bytes(f.journal_file.bytes) + ", " +
                            std::to_string(f.journal.leases) + " leases" +
                            Failures(f.journal.failures, f.journal.last_error) + ".";
  if (f.journal.set_aside) {
    return Warn(name, state + " The former one was set aside at the start: the broker had ended too often.",
                "See the log for the reason; " + path + ".bad is the previous file.");
  }
  return Pass(name, state);
}

Finding HistoryDatabase(const HealthFacts& f) {
  const std::string name = "history database";
  if (!f.history) return Pass(name, "switched off (enabled in [history]).");
  const std::string& path = f.history_file.path;
  const std::string remedy =
      "Free space on its disk and make it writable, or set file in [history] and restart.";
  const std::string lost = std::to_string(f.history->dropped) + " rows are lost";
  if (!f.history->writing) {
    const std::string finding = path + " is not written: " +
                                (f.history->problem.empty() ? "it is being opened" : f.history->problem) +
                                "; " + std::to_string(f.history->waiting) + " rows wait";
    if (f.history->dropped != 0) return Fail(name, finding + ", " + lost + ".", remedy);
    return Warn(name, finding + ".", remedy);
  }
  if (f.history_file.error != 0) {
    return Fail(name, path + ": " + os::ErrorText(f.history_file.error) + ", though it is being written.",
                "It was removed: restart the broker; connections continue.");
  }
  const std::string state = path + ", " + Bytes(f.history_file.bytes) + ", " +
                            std::to_string(f.history->written) + " rows written since the start" +
                            Failures(0, f.history->last_error);
  if (f.history->dropped == 0) return Pass(name, state + ".");
  return Warn(name, state + "; " + lost + ".",
              "Check whether its disk is slow or was full; the history is being written again.");
}

}  // namespace

const char* Name(Finding::Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kWarn:
      return "WARN";
    case Verdict::kFail:
      return "FAIL";
  }
  return "?";
}

std::vector<Finding> Judge(const HealthFacts& facts) {
  std::vector<Finding> out;
  out.push_back(Pass("version", facts.version + "."));
  out.push_back(Descriptors(facts));
  out.push_back(Memlock(facts));
  Directory(facts, &out);
  Adapters(facts, &out);
  Ports(facts, &out);
  out.push_back(Network(facts));
  out.push_back(ClockOf(facts));
  out.push_back(LogLevelOf(facts));
  Quotas(facts, &out);
  out.push_back(PeerPidfd(facts));
  Devices(facts, &out);
  out.push_back(LeaseJournal(facts));
  out.push_back(HistoryDatabase(facts));
  out.push_back(Stall(facts));
  return out;
}

}  // namespace nd::service
