// SPDX-License-Identifier: Apache-2.0
// Commands against a fake broker: columns, exit codes, requests, refusals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/testing/fake_admin.h"
#include "cli/testing/run_ndctl.h"
#include "nd/status.h"
#include "tests/testing/process.h"

namespace nd::cli {
namespace {

namespace v1 = ndbroker::v1;

class CommandsTest : public ::testing::Test {
 protected:
  Ran Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--address", admin_.directory()});
    return Ndctl(arguments);
  }

  static v1::ConnectionRow Connection(const std::string& id, std::uint64_t tx) {
    v1::ConnectionRow row;
    row.set_id(id);
    row.set_state("Connected");
    row.mutable_local()->set_family(4);
    row.mutable_local()->set_ip(std::string("\x0a\x00\x00\x01", 4));
    row.mutable_local()->set_port(50000);
    *row.mutable_peer() = row.local();
    row.mutable_peer()->set_port(7000);
    row.mutable_owner()->set_application("fio");
    row.mutable_owner()->set_pid(17);
    row.set_tx_bytes(tx);
    auto* phase = row.add_phases();
    phase->set_name("reply");
    phase->set_seconds(0.0013);
    return row;
  }

  FakeAdmin admin_;
};

TEST_F(CommandsTest, ConnectionColumnsFitATerminal) {
  admin_.connections.emplace();
  *admin_.connections->add_items() = Connection("c-bd3000009000001", 5ULL << 30);
  const Ran ran = Run({"connection", "list"});
  EXPECT_EQ(
      "ID                 STATE      LOCAL           PEER           APP    TX  RX  ERR\n"
      "c-bd3000009000001  Connected  10.0.0.1:50000  10.0.0.1:7000  fio  5.0G   0    0\n",
      ran.out);
  const Ran show = Run({"connection", "show", "c-bd3000009000001"});
  EXPECT_NE(std::string::npos, show.out.find("phases.reply:")) << show.out;
  EXPECT_NE(std::string::npos, show.out.find("1.3 ms")) << show.out;
}

TEST_F(CommandsTest, WatchShowsRatesAndMarksChanges) {
  admin_.connections.emplace();
  *admin_.connections->add_items() = Connection("c-1", 1000);
  admin_.before_list = [&](int call) {
    admin_.connections->mutable_items(0)->set_tx_bytes(1000000 * static_cast<std::uint64_t>(call * call));
  };
  const Ran ran = Run({"connection", "list", "--watch=0.1", "--count", "3"});
  EXPECT_EQ(0, ran.exit) << ran.err;
  const std::size_t third = ran.out.rfind("\n\n");
  ASSERT_NE(std::string::npos, third) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.find("TX/s")) << ran.out;
  EXPECT_EQ(std::string::npos, ran.out.find(" TX ")) << ran.out;
  EXPECT_EQ(std::string::npos, ran.out.substr(0, third).find('*')) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.substr(third).find("M*")) << ran.out;
}

TEST_F(CommandsTest, WatchIsAStreamOfSnapshotsInMachineFormats) {
  admin_.connections.emplace();
  *admin_.connections->add_items() = Connection("c-1", 1000);
  const Ran ran = Run({"connection", "list", "-o", "json", "--watch=0.1", "--count", "3"});
  EXPECT_EQ(3, std::count(ran.out.begin(), ran.out.end(), '\n')) << ran.out;
  EXPECT_TRUE(
      ran.out.starts_with(R"({"apiVersion":"ndbroker/v1","kind":"ConnectionList","items":[{"id":"c-1")"));
  EXPECT_NE(std::string::npos, ran.out.find("\"tx_bytes_per_second\":0"));
}

TEST_F(CommandsTest, OlderBrokerIsReportedWithBothVersions) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"qp", "list"}, {"mr"}, {"history"}, {"stats"}, {"policy", "show"}, {"config", "show"}}) {
    const Ran ran = Run(arguments);
    EXPECT_EQ(1, ran.exit);
    EXPECT_NE(std::string::npos, ran.err.find("it is version 9.9.9, ndctl is version ")) << ran.err;
  }
}

TEST_F(CommandsTest, QueuePairsAndMemoryRegions) {
  admin_.queue_pairs.emplace();
  auto* pair = admin_.queue_pairs->add_items();
  pair->set_id("q-1");
  pair->set_state("connected");
  pair->set_connection("c-1");
  pair->set_receive_queue_depth(16);
  pair->mutable_traffic()->set_tx_bytes(2048);
  EXPECT_EQ(
      "ID   STATE      CONNECTION  APP  RQ  IQ    TX  RX  STALLS  ERR\n"
      "q-1  connected  c-1         -    16   0  2.0K   0       0    0\n",
      Run({"qp", "list"}).out);
  admin_.memory_regions.emplace();
  admin_.memory_regions->set_unlisted(5);
  auto* region = admin_.memory_regions->add_items();
  region->set_id("3:17");
  region->set_kind("region");
  region->set_bytes(4096);
  region->set_access("remote-read+remote-write");
  const Ran ran = Run({"mr", "list"});
  EXPECT_EQ(
      "ID    KIND    SIZE  ACCESS                    BUFFER  APP  PID\n"
      "3:17  region  4.0K  remote-read+remote-write  false   -      0\n",
      ran.out);
  EXPECT_EQ("ndctl: 5 regions more exist, in processes with more than their table holds\n", ran.err);
  EXPECT_EQ(3, Run({"mr", "show", "3:18"}).exit);
}

TEST_F(CommandsTest, PolicyCheckExitsWithTheAnswer) {
  admin_.policy_answer.emplace();
  admin_.policy_answer->set_allowed(true);
  admin_.policy_answer->set_rule("storage");
  admin_.policy_answer->set_reason("10.0.0.1:7000 is in its list");
  auto* step = admin_.policy_answer->add_steps();
  step->set_rule("storage");
  step->set_matched(true);
  step->set_reason("uid 0 matches");
  Ran ran = Run({"policy", "check", "listen", "10.0.0.1:7000", "--uid", "0"});
  EXPECT_EQ(0, ran.exit) << ran.err;
  EXPECT_EQ("allowed  10.0.0.1:7000 is in its list (rule storage)\n", ran.out);
  admin_.policy_answer->set_allowed(false);
  ran = Run({"policy", "check", "connect", "10.0.0.1:7000", "--uid", "root", "--cgroup", "/a"});
  EXPECT_EQ(3, ran.exit);
  EXPECT_TRUE(ran.out.starts_with("refused  ")) << ran.out;
  EXPECT_EQ("", ran.err);
  EXPECT_NE(std::string::npos, admin_.asked.find("cgroup: \"/a\"")) << admin_.asked;
  Run({"policy", "check", "connect", "10.0.0.1:7000", "--pod-namespace", "shop", "--pod", "web-1",
       "--service-account", "robot"});
  for (const char* part : {"pod_namespace: \"shop\"", "pod: \"web-1\"", "service_account: \"robot\""}) {
    EXPECT_NE(std::string::npos, admin_.asked.find(part)) << admin_.asked;
  }
  EXPECT_EQ(std::string::npos, admin_.asked.find("cgroup")) << "the cgroup of ndctl is not the pod's";
  ran = Run({"policy", "explain", "connect", "10.0.0.1:7000"});
  EXPECT_EQ(0, ran.exit);
  EXPECT_TRUE(ran.out.starts_with("#  RULE     MATCHES  BECAUSE\n1  storage  yes      uid 0 matches\n"))
      << ran.out;
  ran = Run({"policy", "check", "connect", "10.0.0.1:7000", "-o", "jsonl"});
  EXPECT_EQ(3, ran.exit);
  EXPECT_NE(std::string::npos, ran.out.find("\"allowed\":false")) << ran.out;
}

TEST_F(CommandsTest, PolicyRefusesContradictoryQuestions) {
  for (const auto& [arguments, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"policy", "check", "lisen", "10.0.0.1:1"}, "did you mean 'listen'?"},
           {{"policy", "check", "listen"}, "needs the address"},
           {{"policy", "check", "listen", "10.0.0.1"}, "is not an address with a port"},
           {{"policy", "check", "limits", "10.0.0.1:1"}, "limits have no address"},
           {{"policy", "check", "limits", "--session", "s-1", "--uid", "0"}, "--session names the caller"},
           {{"policy", "check", "limits", "--uid", "no-such-user"}, "no user 'no-such-user'"}}) {
    const Ran ran = Run(arguments);
    EXPECT_EQ(2, ran.exit) << ran.err;
    EXPECT_NE(std::string::npos, ran.err.find(part)) << ran.err;
  }
}

TEST_F(CommandsTest, PolicyLimitsAndRules) {
  admin_.policy_answer.emplace();
  auto* limit = admin_.policy_answer->add_limits();
  limit->set_resource("ports");
  limit->set_limit(0xffffffff);
  limit->set_used(3);
  limit->set_rule("default");
  EXPECT_EQ("RESOURCE  USED  LIMIT  RULE\nports        3      -  default\n",
            Run({"policy", "check", "limits"}).out);
  admin_.policy.emplace();
  EXPECT_TRUE(Run({"policy", "show"}).out.starts_with("no rules: everybody may"))
      << Run({"policy", "show"}).out;
  auto* rule = admin_.policy->add_rules();
  rule->set_name("storage");
  rule->set_uid(7);
  rule->mutable_listen();
  (*rule->mutable_limits())["ports"] = 2;
  EXPECT_EQ(
      "RULE     UID  GID  CGROUP  LISTEN  CONNECT  LIMITS\n"
      "storage    7    -  -       none    -        ports=2\n",
      Run({"policy", "show"}).out);
}

TEST_F(CommandsTest, ConfigShowsOriginsAndPendingChanges) {
  admin_.config.emplace();
  auto* setting = admin_.config->add_settings();
  setting->set_name("limits.hello-timeout");
  setting->set_value("5s");
  setting->set_origin("default");
  setting = admin_.config->add_settings();
  setting->set_name("broker.log-level");
  setting->set_value("debug");
  setting->set_origin("file");
  admin_.config->set_file("/etc/x.toml");
  admin_.config->set_needs_restart("[broker]");
  const Ran ran = Run({"config", "show"});
  EXPECT_EQ(
      "NAME                  VALUE  ORIGIN\n"
      "limits.hello-timeout  5s     default\n"
      "broker.log-level      debug  file\n",
      ran.out);
  EXPECT_NE(std::string::npos, ran.err.find("/etc/x.toml now says something else about [broker]")) << ran.err;
  EXPECT_EQ("broker.log-level\n", Run({"config", "diff", "-q"}).out);
}

TEST_F(CommandsTest, ConfigCheckSendsTheFile) {
  const std::string file = admin_.directory() + "/c.toml";
  std::ofstream(file) << "[core]\n";
  admin_.config_answer.emplace();
  EXPECT_EQ(file + " is right; a reload is enough\n", Run({"config", "check", file}).out);
  EXPECT_NE(std::string::npos, admin_.asked.find("[core]")) << admin_.asked;
  admin_.config_answer->set_needs_restart("[broker]");
  EXPECT_EQ(file + " is right; a change of [broker] needs a restart\n", Run({"config", "check", file}).out);
  admin_.config_answer->mutable_status()->set_code(static_cast<std::uint32_t>(StatusCode::kInvalidParameter));
  admin_.config_answer->mutable_status()->set_message("c.toml:1:1: unknown key");
  const Ran ran = Run({"config", "check", file});
  EXPECT_EQ(1, ran.exit);
  EXPECT_NE(std::string::npos, ran.err.find("c.toml:1:1: unknown key")) << ran.err;
  EXPECT_EQ(3, Run({"config", "check", file + ".no"}).exit);
  EXPECT_EQ(1, Run({"config", "check", admin_.directory()}).exit);
}

TEST_F(CommandsTest, HistorySendsItsOptions) {
  admin_.history.emplace();
  auto* past = admin_.history->add_items();
  past->set_id("c-1");
  past->set_outcome("failed");
  past->set_started("2026-11-21T10:00:00.000Z");
  past->set_ended("2026-11-21T10:00:01.500Z");
  past->set_status("CONNECTION_REFUSED");
  past->set_detail("no listener");
  past->mutable_owner()->set_application("fio");
  admin_.history->set_truncated(true);
  const Ran ran = Run({"history", "--since", "2026-11-21", "--app", "fio", "--failed", "--limit", "1"});
  EXPECT_EQ(
      "ENDED                 OUTCOME  APP  PEER  LASTED  TX  RX  WHY\n"
      "2026-11-21T10:00:01Z  failed   fio  -     1.50 s   0   0  no listener\n",
      ran.out);
  EXPECT_EQ("ndctl: only the first 1 are shown; --limit or --until shows others\n", ran.err);
  EXPECT_EQ("since: \"2026-11-21T00:00:00Z\" limit: 1 application: \"fio\" failed_only: true", admin_.asked);
  EXPECT_EQ(0, Run({"history", "--filter", "outcome=failed", "--limit", "1"}).exit);
  EXPECT_EQ("limit: 1000000", admin_.asked);  // ndctl applies the filter itself.
  EXPECT_EQ(2, Run({"history", "--since", "tomorrow"}).exit);
  EXPECT_EQ(2, Run({"history", "--since", "2026-11-22", "--until", "2026-11-21"}).exit);
}

TEST_F(CommandsTest, StatsAreTotalsThenRates) {
  v1::StatsReply reply;
  reply.set_at_seconds(100);
  auto* row = reply.add_items();
  row->set_name("fio");
  row->mutable_traffic()->set_tx_bytes(2048);
  row->mutable_traffic()->set_tx_sends(3);
  admin_.stats.push_back(reply);
  reply.set_at_seconds(102);
  reply.mutable_items(0)->mutable_traffic()->set_tx_bytes(4096);
  admin_.stats.push_back(reply);
  const Ran ran = Run({"stats", "--interval", "0.1", "--count", "1"});
  EXPECT_EQ(
      "APP    CONNS    TX  RX  TX-MSGS  RX-MSGS  CONNECT  ACCEPT  FAILED  BROKEN  ERR  STALLS\n"
      "fio        0  2.0K   0        3        0        0       0       0       0    0       0\n"
      "total      0  2.0K   0        3        0        0       0       0       0    0       0\n"
      "\n"
      "APP (PER S)  CONNS    TX  RX  TX-MSGS  RX-MSGS  CONNECT  ACCEPT  FAILED  BROKEN  ERR  STALLS\n"
      "fio              0  1.0K   0        0        0        0       0       0       0    0       0\n"
      "total            0  1.0K   0        0        0        0       0       0       0    0       0\n",
      ran.out);
  EXPECT_EQ("by: \"application\"", admin_.asked);
  EXPECT_NE(std::string::npos, Run({"stats", "--by", "pear"}).err.find("did you mean 'peer'?"));
  EXPECT_EQ(0, Run({"stats", "--interval", "0.1", "--count", "1", "--sort", "-TX"}).exit);
  EXPECT_EQ(2, Run({"stats", "--interval", "soon"}).exit);
}

// Values of a busy host: hundreds of gigabytes, thousands of millions of messages.
TEST_F(CommandsTest, StatsFitAHundredColumns) {
  v1::StatsReply reply;
  reply.set_at_seconds(100);
  for (const char* name : {"postgres-replication-worker-of-the-reporting-cluster", "fio", "192.168.100.200",
                           "2001:db8:1234:5678:9abc:def0:1234:5678"}) {
    auto* row = reply.add_items();
    row->set_name(name);
    row->set_connections(10000);
    row->set_connects(123456);
    row->set_accepts(99999);
    row->set_connect_failures(12345);
    row->set_connection_errors(512);
    auto* traffic = row->mutable_traffic();
    traffic->set_tx_bytes(900ULL << 30);
    traffic->set_rx_bytes(123ULL << 40);
    traffic->set_tx_sends(12'345'678'901);
    traffic->set_rx_sends(98'765'432);
    traffic->set_errors(77);
    traffic->set_stalls(1'234'567'890);
  }
  admin_.stats.push_back(reply);
  reply.set_at_seconds(107);
  for (auto& row : *reply.mutable_items()) {
    row.mutable_traffic()->set_tx_bytes(row.traffic().tx_bytes() + 77'777'777'777);
    row.mutable_traffic()->set_tx_sends(row.traffic().tx_sends() + 7'777'777);
    row.mutable_traffic()->set_stalls(row.traffic().stalls() + 10);
  }
  admin_.stats.push_back(reply);
  const Ran ran = Run({"stats", "--interval", "0.1", "--count", "1"});
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_NE(std::string::npos, ran.out.find("postgres~-cluster  ")) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.find("\n192.168.100.200 ")) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.find(" 12.3G ")) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.find(" 99999 ")) << ran.out;
  EXPECT_EQ(std::string::npos, Run({"stats", "-o", "wide"}).out.find('~')) << "there names are whole";
}

TEST_F(CommandsTest, EventsOfThePastEnd) {
  v1::WatchEvent event;
  event.set_time("2026-11-21T10:00:00Z");
  event.set_type("connection.failed");
  event.set_object("c-1");
  event.set_message("refused");
  admin_.events.push_back(event);
  event.set_type("session.opened");
  admin_.events.push_back(event);
  const Ran ran = Run({"events", "--since", "2026-11-21", "--type", "conn*", "--type", "x*"});
  EXPECT_EQ(0, ran.exit) << ran.err;
  EXPECT_EQ("2026-11-21T10:00:00Z  connection.failed  c-1  refused\n", ran.out);
  EXPECT_EQ("since: \"2026-11-21T00:00:00Z\" past_only: true", admin_.asked);
  EXPECT_EQ(0, Run({"events", "--since", "1h", "--follow", "--count", "5"}).exit);
  EXPECT_EQ(std::string::npos, admin_.asked.find("past_only")) << admin_.asked;
}

TEST_F(CommandsTest, PortsAreReservedAndReleased) {
  admin_.outcome.emplace();
  Ran ran = Run({"port", "reserve", "10.0.0.1:7000", "--uid", "root", "--comment", "for nvme"});
  EXPECT_EQ(0, ran.exit) << ran.err;
  EXPECT_NE(std::string::npos, ran.out.find("reserved for uid 0 only")) << ran.out;
  EXPECT_NE(std::string::npos, admin_.asked.find("uid: 0 comment: \"for nvme\"")) << admin_.asked;
  EXPECT_EQ(0, Run({"port", "release", "10.0.0.1:7000"}).exit);
  EXPECT_EQ(2, Run({"port", "reserve", "10.0.0.1"}).exit);
  admin_.outcome->mutable_status()->set_code(static_cast<std::uint32_t>(StatusCode::kSharingViolation));
  EXPECT_EQ(1, Run({"port", "reserve", "10.0.0.1:7000"}).exit);
}

TEST_F(CommandsTest, DryRunChangesNothing) {
  admin_.outcome.emplace();
  admin_.connections.emplace();
  *admin_.connections->add_items() = Connection("c-1", 0);
  Ran ran = Run({"connection", "kill", "c-1", "--dry-run"});
  EXPECT_EQ("would end connection c-1 of fio (pid 17), 10.0.0.1:50000 to 10.0.0.1:7000\n", ran.out);
  EXPECT_EQ(0, Run({"drain", "--dry-run"}).exit);
  EXPECT_EQ(0, admin_.changes.load());
  EXPECT_EQ(3, Run({"connection", "kill", "c-2", "--dry-run"}).exit);
  ran = Run({"connection", "kill", "c-1", "c-2", "-o", "jsonl"});
  EXPECT_EQ(0, ran.exit) << ran.err;
  EXPECT_EQ(2, admin_.changes.load());
}

TEST_F(CommandsTest, EveryIdIsTriedAndEachFailureReported) {
  admin_.outcome.emplace();
  admin_.outcome->mutable_status()->set_code(static_cast<std::uint32_t>(StatusCode::kInvalidHandle));
  const Ran ran = Run({"connection", "kill", "c-1", "c-2"});
  EXPECT_EQ(3, ran.exit);
  EXPECT_NE(std::string::npos, ran.err.find("'c-1'")) << ran.err;
  EXPECT_NE(std::string::npos, ran.err.find("'c-2'")) << ran.err;
}

TEST_F(CommandsTest, DrainWaitsUntilNothingIsConnected) {
  admin_.outcome.emplace();
  admin_.status.set_draining(true);
  EXPECT_EQ("drained: nothing is connected and nothing new is taken\n", Run({"drain", "--wait"}).out);
  admin_.status.mutable_counters()->set_active_connection(2);
  const Ran ran = Run({"drain", "--wait", "--timeout", "50ms"});
  EXPECT_EQ(6, ran.exit);
  EXPECT_NE(std::string::npos, ran.err.find("2 connections and 0 handshakes left")) << ran.err;
  EXPECT_EQ(0, Run({"undrain"}).exit);
  const Ran status = Run({"status"});
  EXPECT_NE(std::string::npos, status.out.find("draining, takes nothing new")) << status.out;
}

TEST_F(CommandsTest, WaitsForStates) {
  admin_.connections.emplace();
  *admin_.connections->add_items() = Connection("c-1", 0);
  admin_.connections->mutable_items(0)->set_state("Connecting");
  admin_.before_list = [&](int call) {
    if (call == 3) admin_.connections->mutable_items(0)->set_state("Connected");
  };
  EXPECT_EQ("c-1\n", Run({"wait", "connection", "c-1", "--for", "state=Connected", "-q"}).out);
  EXPECT_EQ(6, Run({"wait", "connection", "c-1", "--for", "state=Dead", "--timeout", "50ms"}).exit);
  EXPECT_EQ(6, Run({"wait", "connection", "--for", "gone", "--timeout", "50ms"}).exit);
  EXPECT_EQ(0, Run({"wait", "connection", "--for", "exists", "--filter", "app=fio"}).exit);
  EXPECT_EQ(0, Run({"wait", "connection", "c-9", "--for", "gone"}).exit);
  EXPECT_EQ(3, Run({"wait", "connection", "c-9", "--for", "state=Dead"}).exit);
  EXPECT_NE(std::string::npos,
            Run({"wait", "conection", "--for", "gone"}).err.find("did you mean 'connection'?"));
  EXPECT_EQ(2, Run({"wait", "connection", "--for", "stat=x"}).exit);
  EXPECT_EQ(2, Run({"wait", "connection", "--for", "ready"}).exit);
}

TEST_F(CommandsTest, DoctorReportsWhatTheBrokerSees) {
  admin_.diagnosis.emplace();
  auto* item = admin_.diagnosis->add_items();
  item->set_name("descriptor limit");
  item->set_verdict("FAIL");
  item->set_finding("1024 descriptors");
  item->set_remedy("raise LimitNOFILE");
  const Ran ran = Run({"doctor"});
  EXPECT_EQ(1, ran.exit);
  EXPECT_EQ("", ran.err);
  EXPECT_NE(std::string::npos, ran.out.find("FAIL  descriptor limit")) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.find("-> raise LimitNOFILE")) << ran.out;
  EXPECT_NE(std::string::npos, ran.out.find("WARN  versions")) << ran.out;
  const Ran json = Run({"doctor", "-o", "json"});
  EXPECT_NE(std::string::npos, json.out.find("\"source\": \"broker\"")) << json.out;
}

TEST_F(CommandsTest, BundleListsMissingPartsAndOmitsSecrets) {
  admin_.config.emplace();
  auto* setting = admin_.config->add_settings();
  setting->set_name("remote.private-key");
  setting->set_value("hunter2");
  admin_.log.emplace();
  admin_.log->add_lines("a line of the log");
  const std::string file = admin_.directory() + "/b.tar.gz";
  const Ran ran = Run({"debug", "bundle", "-o", file});
  EXPECT_EQ(0, ran.exit) << ran.err;
  const std::string out = admin_.directory() + "/out";
  std::filesystem::create_directory(out);
  ASSERT_EQ(0, std::system(("tar -xzf " + file + " -C " + out + " --strip-components=1").c_str()));
  const auto read = [&](const char* name) {
    std::ifstream in(out + "/" + name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ("a line of the log\n", read("log.txt"));
  EXPECT_NE(std::string::npos, read("config.json").find("<redacted>"));
  EXPECT_EQ(std::string::npos, read("config.json").find("hunter2"));
  EXPECT_NE(std::string::npos, read("manifest.json").find("metrics.sock")) << read("manifest.json");
  EXPECT_NE(std::string::npos, read("doctor.json").find("\"verdict\""));
  EXPECT_NE(std::string::npos, read("kernel.txt").find("Linux"));
  EXPECT_EQ(1, Run({"debug", "bundle", "-o", file}).exit);  // It exists.
  EXPECT_EQ(std::filesystem::perms::owner_read | std::filesystem::perms::owner_write,
            std::filesystem::status(file).permissions());
}

TEST_F(CommandsTest, TenThousandConnectionsArriveComplete) {
  admin_.connections.emplace();
  for (int i = 0; i < 10000; ++i) {
    auto row = Connection("c-" + std::to_string(i), 1);
    row.mutable_owner()->set_cgroup(std::string(600, 'x'));  // More than gRPC's usual 4 MiB in all.
    *admin_.connections->add_items() = row;
  }
  ASSERT_GT(admin_.connections->ByteSizeLong(), 6U << 20);
  const Ran ran = Run({"connection", "list", "-q"});
  EXPECT_EQ(0, ran.exit) << ran.err;
  EXPECT_EQ(10000, std::count(ran.out.begin(), ran.out.end(), '\n'));
}

TEST_F(CommandsTest, QuietAndEnvironment) {
  admin_.connections.emplace();
  *admin_.connections->add_items() = Connection("c-1", 0);
  EXPECT_EQ("c-1\n", Run({"connection", "list", "--quiet"}).out);
  EXPECT_EQ(2, Run({"connection", "list", "-q", "-o", "json"}).exit);
  testing::SetVariable("NDCTL_OUTPUT", "json");
  EXPECT_EQ("c-1\n", Run({"connection", "list", "-q"}).out);
  EXPECT_TRUE(Run({"connection", "list"}).out.starts_with("{"));
  testing::SetVariable("NDCTL_OUTPUT", "table");
  testing::SetVariable("NDCTL_NO_HEADERS", "1");
  EXPECT_TRUE(Run({"connection", "list"}).out.starts_with("c-1"));
  testing::SetVariable("NDCTL_NO_HEADERS", nullptr);
  testing::SetVariable("NDCTL_TIMEOUT", "5parsecs");
  const Ran ran = Run({"connection", "list"});
  EXPECT_EQ(2, ran.exit);
  EXPECT_NE(std::string::npos, ran.err.find("--timeout: unknown unit 'parsecs'")) << ran.err;
  testing::SetVariable("NDCTL_TIMEOUT", nullptr);
  testing::SetVariable("NDCTL_NO_PAGER", "perhaps");
  EXPECT_EQ("ndctl: $NDCTL_NO_PAGER is 'perhaps', which --no-pager cannot be\n  write true or false\n",
            Run({"connection", "list"}).err);
  testing::SetVariable("NDCTL_NO_PAGER", nullptr);
  testing::SetVariable("NDCTL_OUTPUT", nullptr);
}

}  // namespace
}  // namespace nd::cli
