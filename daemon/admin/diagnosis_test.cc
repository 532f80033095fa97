// SPDX-License-Identifier: Apache-2.0
// Each subject passes on a healthy broker, and otherwise names the problem and its remedy.
#include "daemon/admin/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/os/self.h"
#include "daemon/admin/health_facts.h"

namespace nd::service {
namespace {

using Verdict = Finding::Verdict;

HealthFacts Healthy() {
  HealthFacts f;
  f.version = "ndbrokerd 1.2.3";
  f.fds_open = 40;
  f.fd_limit = 65536;
  f.fds_wanted = 1000;
  f.own_uid = 7;
  f.directory = {"/run/ndbroker", 0, 7, 040755};
  f.sockets = {{"/run/ndbroker/lane.sock", 0, 7, 0140666}};
  f.adapters = {{"soft0", "soft", true, 2}};
  f.initial_network = true;
  f.log_level = "info";
  f.ports = {{"10.0.0.1:4794", 0}};
  f.devices = {{"/dev/infiniband/uverbs0", 0, 0, 020666}};
  f.journal.journaled = true;
  f.journal.leases = 3;
  f.journal_file = {"/run/ndbroker/journal", 0, 7, 0100600, 512};
  f.history.emplace();
  f.history->writing = true;
  f.history->written = 17;
  f.history_file = {"/var/lib/ndbroker/history.db", 0, 7, 0100600, 40960};
  return f;
}

// Returns the worst finding of that name.
Finding Of(const HealthFacts& facts, const std::string& name) {
  Finding worst{name + " is missing", Verdict::kPass, "", ""};
  bool found = false;
  for (const Finding& finding : Judge(facts)) {
    EXPECT_FALSE(finding.finding.empty());
    EXPECT_EQ(finding.remedy.empty(), finding.verdict == Verdict::kPass) << finding.name;
    if (finding.name == name && (!found || finding.verdict > worst.verdict)) {
      worst = finding;
      found = true;
    }
  }
  EXPECT_TRUE(found) << name;
  return worst;
}

TEST(Diagnosis, HealthyBrokerPassesEverySubject) {
  for (const Finding& finding : Judge(Healthy())) {
    EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.name << ": " << finding.finding;
  }
}

struct Case {
  const char* what;
  std::function<void(HealthFacts&)> change;
  const char* name;
  Verdict verdict;
  const char* finding;  // Part of it.
};

TEST(Diagnosis, NamesEachProblem) {
  const Case cases[] = {
      {"few descriptors left", [](auto& f) { f.fds_open = 60000; }, "descriptor limit", Verdict::kFail,
       "60000 of"},
      {"low limit", [](auto& f) { f.fd_limit = 1024; }, "descriptor limit", Verdict::kWarn,
       "allow 1000 more"},
      {"memlock on verbs",
       [](auto& f) {
         f.memlock = 8u << 20;
         f.adapters[0].pins_memory = true;
       },
       "memlock", Verdict::kWarn, "8192 KiB"},
      {"memlock without verbs", [](auto& f) { f.memlock = 65536; }, "memlock", Verdict::kPass, "64 KiB"},
      {"directory gone", [](auto& f) { f.directory.error = ENOENT; }, "runtime directory", Verdict::kFail,
       "No such file"},
      {"directory of another", [](auto& f) { f.directory.uid = 8; }, "runtime directory", Verdict::kFail,
       "owner 8"},
      {"directory writable", [](auto& f) { f.directory.mode = 040777; }, "runtime directory", Verdict::kFail,
       "mode 0777"},
      {"socket gone", [](auto& f) { f.sockets[0].error = ENOENT; }, "runtime directory", Verdict::kFail,
       "lane.sock"},
      {"no adapter", [](auto& f) { f.adapters.clear(); }, "adapters", Verdict::kFail, "none"},
      {"disabled", [](auto& f) { f.adapters[0].enabled = false; }, "adapter soft0", Verdict::kWarn,
       "disabled"},
      {"trouble", [](auto& f) { f.adapters[0].problem = "The link is down."; }, "adapter soft0",
       Verdict::kFail, "link is down"},
      {"no address", [](auto& f) { f.adapters[0].addresses = 0; }, "adapter soft0", Verdict::kWarn,
       "no address"},
      {"port filtered", [](auto& f) { f.ports[0].error = ETIMEDOUT; }, "TCP port", Verdict::kFail,
       "timed out"},
      {"own namespace", [](auto& f) { f.initial_network = false; }, "network namespace", Verdict::kWarn,
       "another"},
      {"hidden namespace", [](auto& f) { f.initial_network.reset(); }, "network namespace", Verdict::kPass,
       "unknown"},
      {"suspended", [](auto& f) { f.suspended = std::chrono::seconds(90); }, "clock", Verdict::kWarn,
       "90.000 s"},
      {"no time", [](auto& f) { f.clock_is_set = false; }, "clock", Verdict::kWarn, "time of day"},
      {"silent", [](auto& f) { f.log_level = "off"; }, "log level", Verdict::kWarn, "Nothing"},
      {"chatty", [](auto& f) { f.log_level = "trace"; }, "log level", Verdict::kWarn, "trace"},
      {"near quota",
       [](auto& f) {
         f.near_quota = {{1000, "listeners", 9, 10}};
       },
       "quotas", Verdict::kWarn, "uid 1000 has 9 of 10 listeners"},
      {"quota full",
       [](auto& f) {
         f.near_quota = {{1000, "ports", 10, 10}};
       },
       "quotas", Verdict::kFail, "10 of 10"},
      {"old kernel", [](auto& f) { f.peer_pidfd = false; }, "SO_PEERPIDFD", Verdict::kWarn, "lacks"},
      {"closed device", [](auto& f) { f.devices[0].mode = 020600; }, "/dev/infiniband", Verdict::kWarn,
       "uverbs0 has mode 0600"},
      {"no devices", [](auto& f) { f.devices.clear(); }, "/dev/infiniband", Verdict::kPass,
       "no RDMA devices"},
      {"journal", [](auto&) {}, "lease journal", Verdict::kPass,
       "/run/ndbroker/journal, 512 bytes, 3 leases."},
      {"journal recovered",
       [](auto& f) {
         f.journal.failures = 2;
         f.journal.last_error = "no space";
       },
       "lease journal", Verdict::kPass, "writing failed 2 times since the start, the last time: no space."},
      {"journal full",
       [](auto& f) {
         f.journal.journaled = false;
         f.journal.problem = "cannot write it: No space left on device";
       },
       "lease journal", Verdict::kFail,
       "No space left on device. If the broker ended now, no port would be kept"},
      {"journal removed", [](auto& f) { f.journal_file.error = ENOENT; }, "lease journal", Verdict::kFail,
       "journal: No such file"},
      {"crash loop", [](auto& f) { f.journal.set_aside = true; }, "lease journal", Verdict::kWarn,
       "set aside"},
      {"history", [](auto&) {}, "history database", Verdict::kPass,
       "/var/lib/ndbroker/history.db, 40 KiB, 17 rows written since the start."},
      {"history off", [](auto& f) { f.history.reset(); }, "history database", Verdict::kPass, "switched off"},
      {"history full",
       [](auto& f) {
         f.history->writing = false;
         f.history->problem = "database or disk is full";
         f.history->waiting = 9;
       },
       "history database", Verdict::kWarn, "is not written: database or disk is full; 9 rows wait."},
      {"history lost",
       [](auto& f) {
         f.history->writing = false;
         f.history->problem = "disk I/O error";
         f.history->dropped = 4;
       },
       "history database", Verdict::kFail, "4 rows are lost"},
      {"history was lost",
       [](auto& f) {
         f.history->dropped = 4;
         f.history->last_error = "disk I/O error";
       },
       "history database", Verdict::kWarn, "the last time: disk I/O error; 4 rows are lost"},
      {"history removed", [](auto& f) { f.history_file.error = ENOENT; }, "history database", Verdict::kFail,
       "history.db: No such file"},
      {"slow", [](auto& f) { f.longest_stall = std::chrono::milliseconds(200); }, "loop stall",
       Verdict::kWarn, "0.200 s"},
      {"stuck", [](auto& f) { f.longest_stall = std::chrono::seconds(3); }, "loop stall", Verdict::kFail,
       "3.000 s"},
  };
  for (const Case& c : cases) {
    HealthFacts facts = Healthy();
    c.change(facts);
    const Finding finding = Of(facts, c.name);
    EXPECT_EQ(finding.verdict, c.verdict) << c.what << ": " << finding.finding;
    EXPECT_NE(finding.finding.find(c.finding), std::string::npos) << c.what << ": " << finding.finding;
  }
}

TEST(HealthFacts, AreGatheredFromThisProcess) {
  HealthFacts facts;
  GatherHealth("/nonexistent-directory", {Address::V4({127, 0, 0, 1}, 1)}, &facts);
  EXPECT_GT(facts.fd_limit, facts.fds_open);
  EXPECT_EQ(facts.own_uid, os::UserNumber());
  EXPECT_EQ(facts.directory.error, ENOENT);
  EXPECT_TRUE(facts.clock_is_set);
  EXPECT_GE(facts.suspended, Duration::zero());
  ASSERT_EQ(facts.ports.size(), 1u);
  EXPECT_NE(facts.ports[0].error, 0) << "port 1 has no listener";
}

}  // namespace
}  // namespace nd::service
