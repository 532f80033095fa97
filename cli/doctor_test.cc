// SPDX-License-Identifier: Apache-2.0
// Every verdict of doctor from the facts that cause it, without causing them.
#include "cli/doctor.h"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>

namespace nd::cli {
namespace {

Facts Healthy() {
  Facts facts;
  facts.uid = 1000;
  facts.chosen = {"/run/ndbroker", true, true, false, 0, 0755, {}, {}, {}};
  facts.chosen.admin = {"/run/ndbroker/admin.sock", SocketState::kAnswers};
  facts.chosen.broker = {"/run/ndbroker/broker.sock", SocketState::kAnswers};
  facts.chosen.lane = {"/run/ndbroker/lane.sock", SocketState::kAnswers};
  facts.broker_pids = {17};
  facts.ndctl_version = "0.1.0";
  facts.memlock = 8 << 20;
  facts.descriptors = 1024;
  facts.own_network = "net:[1]";
  return facts;
}

BrokerFacts Answering() {
  BrokerFacts broker;
  broker.answers = true;
  broker.version = "0.1.0";
  broker.pid = 17;
  broker.network = "net:[1]";
  return broker;
}

// Returns the verdict of one check after `spoil`: "PASS", or "FAIL: finding -> remedy".
std::string After(const std::string& name, const std::function<void(Facts&, BrokerFacts&)>& spoil) {
  Facts facts = Healthy();
  BrokerFacts broker = Answering();
  spoil(facts, broker);
  std::string found = "no such check";
  for (const Verdict& verdict : Judge(facts, broker)) {
    if (verdict.name != name) continue;
    found = verdict.verdict;
    if (verdict.verdict != "PASS") {
      EXPECT_NE("", verdict.remedy) << name;
      found += ": " + verdict.finding;
    }
  }
  return found;
}

TEST(Doctor, KnowsTheServiceTheSandboxAndThePackages) {
  const auto service = [](Facts& f) {
    f.service = {true, true, {}, "ndbrokerd.service", true, true, true, std::uint64_t{1} << 14};
    f.packages = {{"libndbroker1", "0.1.0-1", true}, {"ndbroker", "0.1.0-1", true}};
  };
  for (const char* name : {"service", "sandbox", "packages"}) {
    EXPECT_EQ(After(name, [&](Facts& f, BrokerFacts&) { service(f); }), "PASS") << name;
  }
  EXPECT_EQ(After("service",
                  [&](Facts& f, BrokerFacts&) {
                    service(f);
                    f.service.unit_enabled = false;
                    f.service.drop_ins = {"/etc/systemd/system/ndbrokerd.service.d/x.conf"};
                  }),
            "WARN: ndbrokerd.service, changed by /etc/systemd/system/ndbrokerd.service.d/x.conf, which is "
            "not started at boot");
  EXPECT_EQ(After("service",
                  [&](Facts& f, BrokerFacts&) {
                    service(f);
                    f.service.broker_unit = "session-1.scope";
                  }),
            "WARN: the broker (pid 17) does not belong to ndbrokerd.service, which is installed");
  EXPECT_EQ(After("service",
                  [&](Facts& f, BrokerFacts& b) {
                    service(f);
                    f.service.broker_unit = "";
                    b.answers = false;
                  }),
            "WARN: ndbrokerd.service is installed, and no broker answers");
  EXPECT_EQ(After("sandbox",
                  [&](Facts& f, BrokerFacts&) {
                    service(f);
                    f.service.filters_system_calls = false;
                    f.service.capabilities = ~std::uint64_t{0};
                  }),
            "WARN: the service lacks a filter of system calls, bounded capabilities");
  EXPECT_EQ(After("packages",
                  [&](Facts& f, BrokerFacts&) {
                    service(f);
                    f.packages[0].whole = false;
                  }),
            "FAIL: libndbroker1 0.1.0-1 is only half installed");
  EXPECT_EQ(After("packages",
                  [&](Facts& f, BrokerFacts& b) {
                    service(f);
                    b.version = "0.0.9";
                  }),
            "WARN: libndbroker1 0.1.0-1, ndbroker 0.1.0-1, but ndbrokerd 0.0.9 runs");
}

TEST(Doctor, ReadsThePackagesFromTheStatusOfDpkg) {
  std::istringstream status(
      "Package: bash\nStatus: install ok installed\nVersion: 5.2\n\n"
      "Package: ndbroker\nStatus: install ok unpacked\nVersion: 0.2.0-1\n\n"
      "Package: ndbroker-tests\nStatus: deinstall ok config-files\nVersion: 0.1.0-1\n\n"
      "Package: libndbroker1\nStatus: install ok installed\nVersion: 0.1.0-1\n");
  const std::vector<PackageFact> packages = PackagesIn(status);
  ASSERT_EQ(packages.size(), 2u);
  EXPECT_EQ(packages[0].name + " " + packages[0].version, "ndbroker 0.2.0-1");
  EXPECT_FALSE(packages[0].whole);
  EXPECT_EQ(packages[1].name + " " + packages[1].version, "libndbroker1 0.1.0-1");
  EXPECT_TRUE(packages[1].whole);
}

TEST(Doctor, HealthyHostPassesEveryCheck) {
  for (const Verdict& verdict : Judge(Healthy(), Answering())) {
    EXPECT_EQ("PASS", verdict.verdict) << verdict.name << ": " << verdict.finding;
    EXPECT_NE("", verdict.finding);
    EXPECT_EQ("", verdict.remedy);
  }
}

TEST(Doctor, Directory) {
  EXPECT_EQ("FAIL: /run/ndbroker does not exist",
            After("directory", [](Facts& f, BrokerFacts&) { f.chosen.exists = false; }));
  EXPECT_EQ("FAIL: /run/ndbroker is not a directory",
            After("directory", [](Facts& f, BrokerFacts&) { f.chosen.is_directory = false; }));
  EXPECT_TRUE(
      After("directory", [](Facts& f, BrokerFacts&) { f.chosen.is_link = true; }).starts_with("FAIL"));
  EXPECT_TRUE(After("directory", [](Facts& f, BrokerFacts&) { f.chosen.mode = 0777; }).starts_with("FAIL"));
  EXPECT_EQ("PASS", After("directory", [](Facts& f, BrokerFacts&) { f.chosen.mode = 01777; }));
}

TEST(Doctor, Broker) {
  const auto down = [](Facts& f, BrokerFacts& b) {
    b = {};
    b.problem = "no broker answers";
    b.hint = "start ndbrokerd";
    f.broker_pids.clear();
  };
  EXPECT_EQ("FAIL: no broker answers", After("broker", down));
  EXPECT_EQ("PASS", After("versions", down));
  EXPECT_EQ("PASS", After("network namespace", down));
  EXPECT_TRUE(
      After("broker", [](Facts&, BrokerFacts& b) { b.draining = true; }).starts_with("WARN: draining"));
}

TEST(Doctor, Sockets) {
  const auto with = [](SocketState state) {
    return After("sockets", [state](Facts& f, BrokerFacts&) { f.chosen.lane.state = state; });
  };
  EXPECT_EQ("FAIL: /run/ndbroker/lane.sock does not exist", with(SocketState::kAbsent));
  EXPECT_EQ("FAIL: /run/ndbroker/lane.sock is left over from a broker that ended", with(SocketState::kStale));
  EXPECT_EQ("FAIL: uid 1000 may not use /run/ndbroker/lane.sock", with(SocketState::kForbidden));
  EXPECT_EQ("FAIL: /run/ndbroker/lane.sock does not accept connections", with(SocketState::kSilent));
  EXPECT_EQ("PASS", After("sockets", [](Facts& f, BrokerFacts&) {
              f.chosen.broker.state = SocketState::kAbsent;  // grpc = false
            }));
}

TEST(Doctor, OtherBrokers) {
  const auto with = [](SocketState state) {
    return After("other brokers", [state](Facts& f, BrokerFacts&) {
      DirectoryFact other;
      other.path = "/tmp/ndbroker-1000";
      other.broker.state = other.admin.state = state;
      f.others.push_back(other);
    });
  };
  EXPECT_EQ("WARN: another broker serves /tmp/ndbroker-1000", with(SocketState::kAnswers));
  EXPECT_EQ("WARN: left-over sockets in /tmp/ndbroker-1000", with(SocketState::kStale));
  EXPECT_EQ("PASS", with(SocketState::kAbsent));
  EXPECT_EQ("WARN: several ndbrokerd run: pids 17, 18", After("other brokers", [](Facts& f, BrokerFacts&) {
              f.broker_pids = {17, 18};
            }));
}

TEST(Doctor, VersionsAndNamespaces) {
  EXPECT_EQ("WARN: ndctl 0.1.0, ndbrokerd 0.2.0",
            After("versions", [](Facts&, BrokerFacts& b) { b.version = "0.2.0"; }));
  EXPECT_EQ("WARN: ndctl 0.1.0, ndbrokerd 0.1.0, libndbroker 0.0.9",
            After("versions", [](Facts& f, BrokerFacts&) { f.libraries = {"0.0.9"}; }));
  EXPECT_TRUE(
      After("network namespace", [](Facts&, BrokerFacts& b) { b.network = "net:[2]"; }).starts_with("WARN"));
  EXPECT_EQ("PASS", After("network namespace", [](Facts&, BrokerFacts& b) { b.network = ""; }));
}

TEST(Doctor, Devices) {
  const auto device = [](Facts& f) {
    f.rdma_devices = {"mlx5_0"};
    f.verbs_nodes = f.verbs_usable = f.cm_node = f.cm_usable = true;
  };
  EXPECT_EQ("PASS", After("RDMA devices", [&](Facts& f, BrokerFacts&) { device(f); }));
  EXPECT_TRUE(After("memlock", [&](Facts& f, BrokerFacts&) { device(f); }).starts_with("WARN: 8.0 MiB"));
  EXPECT_EQ("PASS", After("memlock", [&](Facts& f, BrokerFacts&) {
              device(f);
              f.memlock = UINT64_MAX;
            }));
  EXPECT_EQ("FAIL: mlx5_0 without /dev/infiniband/rdma_cm",
            After("RDMA devices", [&](Facts& f, BrokerFacts&) {
              device(f);
              f.cm_node = false;
            }));
  EXPECT_TRUE(After("RDMA devices", [&](Facts& f, BrokerFacts&) {
                device(f);
                f.verbs_usable = false;
              }).starts_with("WARN"));
}

TEST(Doctor, LimitsOfThisHost) {
  EXPECT_TRUE(
      After("descriptors", [](Facts& f, BrokerFacts&) { f.descriptors = 256; }).starts_with("WARN: 256"));
  EXPECT_TRUE(
      After("clock", [](Facts& f, BrokerFacts&) { f.clock_synchronized = false; }).starts_with("WARN"));
  EXPECT_TRUE(
      After("sealed memory", [](Facts& f, BrokerFacts&) { f.sealed_memory = false; }).starts_with("FAIL"));
}

}  // namespace
}  // namespace nd::cli
