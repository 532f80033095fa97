// SPDX-License-Identifier: Apache-2.0
// What the configuration file may say, and the exact words when it says something else.
#include "daemon/config.h"

#include <gtest/gtest.h>

#include "daemon/config_rules.h"

namespace nd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string ErrorOf(std::string_view text) {
  const Result<Config> config = ParseConfig(text, "f.toml");
  return config.ok() ? "no error" : config.status().message();
}

TEST(Config, EmptyFileIsTheDefault) {
  const Config config = ParseConfig("", "f.toml").value();
  ASSERT_EQ(config.manager.soft.adapters.size(), 1u);
  EXPECT_EQ(config.manager.soft.adapters[0].name, "soft0");
  EXPECT_EQ(config.core.max_backlog, core::Settings().max_backlog);
  EXPECT_EQ(NeedsRestart(Config::Default(), config), "");
}

TEST(Config, ReadsEveryKey) {
  const Config c = ParseConfig(R"(
[broker]
directory = "/run/x"
client-socket-mode = "0660"
admin-socket-mode = "0600"
client-socket-group = "root"
admin-socket-group = "root"
foreign-network-namespaces = "allow"
log-level = "debug"
[limits]
unauthenticated = 10
unauthenticated-per-uid = 9
connections-per-uid = 8
admin-connections = 7
pending-operations = 60
session-queue-bytes = 200000
watch-queue-events = 50
grpc-memory-bytes = 10000000
half-open-connections = 40
[core]
max-backlog = 11
max-handshakes-in-flight = 12
ephemeral-first = 50000
ephemeral-last = 50100
privileged-ports-below = 1024
[timeouts]
disconnect = "250ms"
establish = "2min"
handshake-pace = "7s"
connect = "3s"
request = "4s"
keepalive = "5s"
hello = "1s"
[compat]
accept-refused-on-reject = true
allow-same-owner-bind-sharing = true
bad-network-name = true
flush-on-peer-disconnect = true
notify-success-on-local-disconnect = true
[[adapter]]
name = "a"
addresses = ["127.0.0.1", "::1"]
mode = "tcp"
tcp-port = 4000
tcp-networks = ["10.0.0.0/8"]
crc = false
max-inbound-read-limit = 1
max-outbound-read-limit = 2
[[rule]]
name = "r"
match = { uid = "root", gid = 0, cgroup = "system.slice/x.service" }
listen = ["192.0.2.0/24:4420", "[2001:db8::]/64:1-2"]
connect = []
quota = { sessions = 1, connectors = 2, listeners = 3, shared-endpoints = 4, queue-pairs = 5, ports = 6 }
)",
                               "f.toml")
                       .value();
  EXPECT_EQ(c.broker.directory, "/run/x");
  EXPECT_EQ(c.broker.client_mode, 0660u);
  EXPECT_EQ(c.broker.admin_group, gid_t{0});
  EXPECT_EQ(c.broker.log_level, "debug");
  EXPECT_EQ(c.limits.unauthenticated, 10u);
  EXPECT_EQ(c.limits.unauthenticated_per_uid, 9u);
  EXPECT_EQ(c.limits.connections_per_uid, 8u);
  EXPECT_EQ(c.limits.admin_connections, 7u);
  EXPECT_EQ(c.limits.pending_operations, 60u);
  EXPECT_EQ(c.limits.session_queue_bytes, 200000u);
  EXPECT_EQ(c.limits.watch_queue_events, 50u);
  EXPECT_EQ(c.limits.grpc_memory_bytes, 10000000u);
  EXPECT_EQ(c.limits.hello_timeout, seconds(1));
  EXPECT_EQ(c.manager.soft.max_half_open, 40u);
  EXPECT_TRUE(c.broker.allow_foreign_networks);
  EXPECT_EQ(c.core.max_backlog, 11u);
  EXPECT_EQ(c.core.max_handshakes_in_flight, 12u);
  EXPECT_EQ(c.core.ephemeral_first, 50000);
  EXPECT_EQ(c.core.ephemeral_last, 50100);
  EXPECT_EQ(c.core.privileged_ports_below, 1024);
  EXPECT_EQ(c.core.disconnect_timeout, milliseconds(250));
  EXPECT_EQ(c.core.establish_timeout, seconds(120));
  EXPECT_EQ(c.core.handshake_pace, seconds(7));
  EXPECT_EQ(c.manager.soft.connect_timeout, seconds(3));
  EXPECT_EQ(c.manager.soft.request_timeout, seconds(4));
  EXPECT_EQ(c.manager.soft.keepalive, seconds(5));
  EXPECT_TRUE(c.core.accept_refused_on_reject && c.core.allow_same_owner_bind_sharing &&
              c.core.bad_network_name && c.core.flush_on_peer_disconnect &&
              c.core.notify_success_on_local_disconnect);
  ASSERT_EQ(c.manager.soft.adapters.size(), 1u);
  const auto& adapter = c.manager.soft.adapters[0];
  EXPECT_EQ(adapter.name, "a");
  EXPECT_EQ(adapter.addresses.size(), 2u);
  EXPECT_TRUE(adapter.tcp_mode);
  EXPECT_FALSE(adapter.crc);
  EXPECT_EQ(adapter.tcp_port, 4000);
  ASSERT_EQ(adapter.tcp_networks.size(), 1u);
  EXPECT_EQ(adapter.tcp_networks[0].bits, 8);
  EXPECT_EQ(adapter.max_inbound_read_limit, 1u);
  EXPECT_EQ(adapter.max_outbound_read_limit, 2u);
  ASSERT_EQ(c.rules.size(), 1u);
  const core::Rule& rule = c.rules[0];
  EXPECT_EQ(rule.name, "r");
  EXPECT_EQ(rule.uid, 0u);
  EXPECT_EQ(rule.gid, 0u);
  EXPECT_EQ(rule.cgroup, "/system.slice/x.service");
  ASSERT_EQ(rule.listen->size(), 2u);
  EXPECT_EQ((*rule.listen)[0].first_port, 4420);
  EXPECT_EQ((*rule.listen)[1].last_port, 2);
  EXPECT_TRUE(rule.connect->empty());
  EXPECT_EQ(rule.limits.sessions, 1u);
  EXPECT_EQ(rule.limits.connectors, 2u);
  EXPECT_EQ(rule.limits.listeners, 3u);
  EXPECT_EQ(rule.limits.shared_endpoints, 4u);
  EXPECT_EQ(rule.limits.queue_pairs, 5u);
  EXPECT_EQ(rule.limits.ports, 6u);
  EXPECT_EQ(NeedsRestart(Config::Default(), c),
            "[broker], [limits], connect, request, keepalive or hello in [timeouts], [[adapter]]");
}

struct Case {
  const char *text, *error;
};

TEST(Config, EveryMistakeHasItsWords) {
  const Case cases[] = {
      {"[core]\nmax-baklog = 3\n",
       "f.toml:2:1: unknown key \"max-baklog\" in [core]; the nearest right one is \"max-backlog\""},
      {"[cor]\n", "f.toml:1:2: unknown key \"cor\" in the file; the nearest right one is \"core\""},
      {"[core]\nmax-backlog = 0\n",
       "f.toml:2:15: \"max-backlog\" in [core] is 0; it must be a whole number from 1 to 65536"},
      {"[core]\nmax-backlog = \"x\"\n",
       "f.toml:2:15: \"max-backlog\" in [core] is a text; it must be a whole number from 1 to 65536"},
      {"[compat]\nbad-network-name = 1\n",
       "f.toml:2:20: \"bad-network-name\" in [compat] is a whole number; it must be true or false"},
      {"core = 3\n", "f.toml:1:8: \"core\" in the file is a whole number; it must be a table"},
      {"[timeouts]\nhello = \"5 parsecs\"\n",
       "f.toml:2:9: \"hello\" in [timeouts] is \"5 parsecs\"; it must be a time from 100ms to 1h such as "
       "\"250ms\", \"5s\" or \"2min\""},
      {"[timeouts]\nhello = \"99999999999h\"\n",
       "f.toml:2:9: \"hello\" in [timeouts] is \"99999999999h\"; it must be a time from 100ms to 1h such as "
       "\"250ms\", \"5s\" or \"2min\""},
      {"[broker]\nadmin-socket-mode = \"0777\"\n",
       "f.toml:2:21: \"admin-socket-mode\" in [broker] must be the permissions of a socket in octal, such as "
       "\"0600\" or \"0660\""},
      {"[broker]\nforeign-network-namespaces = \"maybe\"\n",
       "f.toml:2:30: \"foreign-network-namespaces\" in [broker] is \"maybe\"; it must be \"refuse\" or "
       "\"allow\""},
      {"[broker]\nlog-level = \"loud\"\n",
       "f.toml:2:13: \"log-level\" in [broker] is \"loud\"; it must be \"trace\", \"debug\", \"info\", "
       "\"warning\", \"error\" or \"off\""},
      {"[broker]\nadmin-socket-group = \"no such group\"\n",
       "f.toml:2:22: this system has no group \"no such group\""},
      {"[[adapter]]\nmode = \"udp\"\n",
       "f.toml:2:8: \"mode\" in [[adapter]] is \"udp\"; it must be \"separate\" or \"tcp\""},
      {"[[adapter]]\naddresses = [\"0.0.0.0\"]\n",
       "f.toml:2:14: \"0.0.0.0\" is not an address of a host without a port"},
      {"[[adapter]]\n[[adapter]]\n", "f.toml:2:1: a second [[adapter]] is called \"soft0\""},
      {"[adapter]\n", "f.toml:1:1: \"adapter\" in the file must be written as [[adapter]], once for each"},
      {"[[rule]]\nlisten = [\"10.0.0.0/33\"]\n",
       "f.toml:2:11: \"10.0.0.0/33\" has a prefix length that is not 0 to 32; write it like "
       "\"192.0.2.0/24:4420\", \"[2001:db8::]/64:7000-7010\", \"10.0.0.1\" or \"*\""},
      {"[[rule]]\nmatch = { uid = \"no such user\" }\n",
       "f.toml:2:17: \"no such user\" is not a name that this system knows as uid"},
      {"[[rule]]\nquota = { sessions = -1 }\n",
       "f.toml:2:22: \"sessions\" in \"quota\" of [[rule]] is -1; it must be a whole number from 0 to "
       "16000000"},
      {"[core]\nephemeral-first = 60000\nephemeral-last = 50000\n",
       "f.toml:1:1: \"ephemeral-last\" in [core] must not be less than \"ephemeral-first\""},
  };
  for (const Case& c : cases) EXPECT_EQ(ErrorOf(c.text), c.error) << c.text;
}

TEST(Config, ReportsAllMistakesAndSyntaxErrorsWithTheirPlace) {
  EXPECT_EQ(
      ErrorOf("[core]\nmax-backlog = 0\nmax-handshakes-in-flight = 0\n"),
      "f.toml:2:15: \"max-backlog\" in [core] is 0; it must be a whole number from 1 to 65536\n"
      "f.toml:3:28: \"max-handshakes-in-flight\" in [core] is 0; it must be a whole number from 1 to 65536");
  EXPECT_EQ(ErrorOf("[core\n").rfind("f.toml:1:6: ", 0), 0u) << ErrorOf("[core\n");
  EXPECT_EQ(LoadConfig("/no/such/file").status().message(),
            "/no/such/file: cannot be read: No such file or directory");
  EXPECT_EQ(LoadConfig("/tmp").status().message(), "/tmp: is not a regular file of at most 16 MiB");
}

TEST(Prefixes, AllForms) {
  const auto one = [](const std::string& text) { return config::ParsePrefixes(text).value().at(0); };
  EXPECT_EQ(one("10.0.0.1").bits, 32);
  EXPECT_EQ(one("10.0.0.0/8:*").last_port, 65535);
  EXPECT_EQ(one("2001:db8::/32").bits, 32);
  EXPECT_EQ(one("[::1]:7").first_port, 7);
  EXPECT_EQ(config::ParsePrefixes("*:4420").value().size(), 2u);
  for (const char* bad : {"", "10.0.0.0/", "10.0.0.0/8:", "[::1", "10.0.0.1:9-8", "10.0.0.1:70000", "*/8",
                          "x", "[::1]x", "10.0.0.1:1-", "*x", "[[::1]]"}) {
    EXPECT_FALSE(config::ParsePrefixes(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace nd
