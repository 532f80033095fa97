// SPDX-License-Identifier: Apache-2.0
// The allowed contents of the configuration file, and the exact error messages.
#include "daemon/config.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "daemon/config_rules.h"
#include "provider/soft/cm/soft_provider.h"
#include "provider/verbs/cm/verbs_provider.h"

namespace nd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const provider::soft::Options& SoftOf(const Config& config) {
  return dynamic_cast<const provider::soft::SoftProvider&>(*config.providers.at(0)).options();
}
provider::verbs::Options VerbsOf(const Config& config) {
  return dynamic_cast<const provider::verbs::VerbsProvider&>(*config.providers.at(1)).options();
}

std::string ErrorOf(std::string_view text) {
  const Result<Config> config = ParseConfig(text, "f.toml");
  return config.ok() ? "no error" : config.status().message();
}

TEST(Config, EmptyFileIsTheDefault) {
  const Config config = ParseConfig("", "f.toml").value();
  ASSERT_EQ(SoftOf(config).adapters.size(), 1u);
  EXPECT_EQ(SoftOf(config).adapters[0].name, "soft0");
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
foreign-network-namespaces = "serve"
admin-namespaces = "any"
grpc = false
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
datagrams = false
max-inbound-read-limit = 1
max-outbound-read-limit = 2
[[rule]]
name = "r"
match = { uid = "root", gid = 0, cgroup = "system.slice/x.service", pod-namespace = "shop", pod = "web-1", service-account = "robot" }
listen = ["192.0.2.0/24:4420", "[2001:db8::]/64:1-2"]
connect = []
quota = { sessions = 1, connectors = 2, listeners = 3, shared-endpoints = 4, queue-pairs = 5, ports = 6 }
)",
                               "f.toml")
                       .value();
  EXPECT_EQ(c.broker.directory, "/run/x");
  EXPECT_EQ(c.broker.client_mode, 0660u);
  EXPECT_EQ(c.broker.admin_group, 0u);
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
  EXPECT_EQ(SoftOf(c).max_half_open, 40u);
  EXPECT_EQ(c.broker.foreign_networks, ForeignNetworks::kServe);
  EXPECT_TRUE(c.broker.allow_foreign_admins);
  EXPECT_FALSE(c.broker.grpc);
  EXPECT_EQ(c.core.max_backlog, 11u);
  EXPECT_EQ(c.core.max_handshakes_in_flight, 12u);
  EXPECT_EQ(c.core.ephemeral_first, 50000);
  EXPECT_EQ(c.core.ephemeral_last, 50100);
  EXPECT_EQ(c.core.privileged_ports_below, 1024);
  EXPECT_EQ(c.core.disconnect_timeout, milliseconds(250));
  EXPECT_EQ(c.core.establish_timeout, seconds(120));
  EXPECT_EQ(c.core.handshake_pace, seconds(7));
  EXPECT_EQ(SoftOf(c).connect_timeout, seconds(3));
  EXPECT_EQ(SoftOf(c).request_timeout, seconds(4));
  EXPECT_EQ(SoftOf(c).keepalive, seconds(5));
  EXPECT_TRUE(c.core.accept_refused_on_reject && c.core.allow_same_owner_bind_sharing &&
              c.core.bad_network_name && c.core.flush_on_peer_disconnect &&
              c.core.notify_success_on_local_disconnect);
  ASSERT_EQ(SoftOf(c).adapters.size(), 1u);
  const auto& adapter = SoftOf(c).adapters[0];
  EXPECT_EQ(adapter.name, "a");
  EXPECT_EQ(adapter.addresses.size(), 2u);
  EXPECT_TRUE(adapter.tcp_mode);
  EXPECT_FALSE(adapter.crc);
  EXPECT_FALSE(adapter.datagrams);
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
  EXPECT_EQ(rule.pod_namespace, "shop");
  EXPECT_EQ(rule.pod, "web-1");
  EXPECT_EQ(rule.service_account, "robot");
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

// Returns the keys of a file, as "section.key".
std::set<std::string> KeysOf(const Config& config, Setting::Origin origin) {
  std::set<std::string> keys;
  for (const Setting& setting : config.settings) {
    if (setting.origin != origin) continue;
    EXPECT_TRUE(keys.insert(setting.name).second) << setting.name;
  }
  return keys;
}

TEST(Config, EverySettingIsShownWithItsValueAndOrigin) {
  const Config none = Config::Default();
  EXPECT_TRUE(KeysOf(none, Setting::Origin::kFile).empty());
  const std::set<std::string> defaults = KeysOf(none, Setting::Origin::kDefault);
  for (const char* key : {"broker.directory", "broker.client-socket-mode", "broker.admin-socket-group",
                          "limits.half-open-connections", "core.ephemeral-last", "timeouts.keepalive",
                          "compat.bad-network-name", "verbs.devices", "adapter.soft0.tcp-networks"}) {
    EXPECT_TRUE(defaults.contains(key)) << key;
  }
  Config c = ParseConfig(
                 "[broker]\nclient-socket-mode = \"0660\"\n[timeouts]\nestablish = \"2min\"\n"
                 "[[adapter]]\nname = \"a\"\naddresses = [\"127.0.0.1\", \"::1\"]\n"
                 "[[rule]]\nname = \"r\"\nmatch = { uid = \"root\" }\nlisten = []\nquota = { ports = 6 }\n",
                 "f.toml")
                 .value();
  c.Override("core.max-backlog", "5");
  EXPECT_EQ(KeysOf(c, Setting::Origin::kFile),
            (std::set<std::string>{"broker.client-socket-mode", "timeouts.establish", "adapter.a.addresses",
                                   "rule.r.match.uid", "rule.r.listen", "rule.r.quota.ports"}));
  EXPECT_EQ(KeysOf(c, Setting::Origin::kCommandLine), std::set<std::string>{"core.max-backlog"});
  std::map<std::string, std::string> values;
  for (const Setting& setting : c.settings) values[setting.name] = setting.value;
  EXPECT_EQ(values["broker.client-socket-mode"], "0660");
  EXPECT_EQ(values["broker.admin-socket-mode"], "0600");
  EXPECT_EQ(values["timeouts.establish"], "120s");
  EXPECT_EQ(values["adapter.a.addresses"], "127.0.0.1, ::1");
  EXPECT_EQ(values["rule.r.match.uid"], "root");
  EXPECT_EQ(values["rule.r.quota.ports"], "6");
  EXPECT_EQ(values["core.max-backlog"], "5");
  EXPECT_EQ(values["core.max-handshakes-in-flight"], "256");
}

TEST(Config, ReloadChangesOnlyReloadableSettings) {
  const Config running =
      ParseConfig("[core]\nmax-backlog = 5\n[limits]\nadmin-connections = 9\n", "f").value();
  const Config loaded = ParseConfig("[broker]\nlog-level = \"debug\"\n", "f").value();
  std::map<std::string, std::string> values;
  for (const Setting& setting : SettingsAfterReload(running, loaded)) values[setting.name] = setting.value;
  EXPECT_EQ(values["core.max-backlog"], "1024");
  EXPECT_EQ(values["limits.admin-connections"], "9");
  EXPECT_EQ(values["broker.log-level"], "debug");
  EXPECT_EQ(values.size(), running.settings.size());
  EXPECT_EQ(NeedsRestart(running, loaded), "[limits]");
  EXPECT_EQ(ChangedSettings(running.settings, SettingsAfterReload(running, loaded)),
            "broker.log-level = debug, core.max-backlog = 1024");
  EXPECT_EQ(ChangedSettings(running.settings, running.settings), "");
  EXPECT_EQ(NeedsRestart(ParseConfig("[[adapter]]\nname = \"a\"\n[[adapter]]\nname = \"b\"\n", "f").value(),
                         ParseConfig("[[adapter]]\nname = \"b\"\n[[adapter]]\nname = \"a\"\n", "f").value()),
            "[[adapter]]")
      << "the first one is the clients' default";
}

struct Case {
  const char *text, *error;
};

TEST(Config, EveryErrorHasItsMessage) {
  const Case cases[] = {
      {"[core]\nmax-baklog = 3\n",
       "f.toml:2:1: unknown key \"max-baklog\" in [core]; the nearest known one is \"max-backlog\""},
      {"[cor]\n", "f.toml:1:2: unknown key \"cor\" in the file; the nearest known one is \"core\""},
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
       "f.toml:2:30: \"foreign-network-namespaces\" in [broker] is \"maybe\"; it must be \"refuse\", "
       "\"allow\" or \"serve\""},
      {"[broker]\nadmin-namespaces = \"all\"\n",
       "f.toml:2:20: \"admin-namespaces\" in [broker] is \"all\"; it must be \"own\" or \"any\""},
      {"[[rule]]\nmatch = { pod = \"Web_1\" }\n",
       "f.toml:2:17: \"pod\" in \"match\" of [[rule]] is \"Web_1\"; it must be a name of Kubernetes: "
       "lower-case letters, digits, '-' and '.'"},
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
       "f.toml:2:17: \"no such user\" is not known to this system as uid"},
      {"[[rule]]\nquota = { sessions = -1 }\n",
       "f.toml:2:22: \"sessions\" in \"quota\" of [[rule]] is -1; it must be a whole number from 0 to "
       "16000000"},
      {"[core]\nephemeral-first = 60000\nephemeral-last = 50000\n",
       "f.toml:1:1: \"ephemeral-last\" in [core] must not be less than \"ephemeral-first\""},
      {"[history]\nfile = \"past.db\"\n",
       "f.toml:2:8: \"file\" in [history] must be an absolute path, or \"\""},
      {"[history]\nfile = \"\"\n", "no error"},
  };
  for (const Case& c : cases) EXPECT_EQ(ErrorOf(c.text), c.error) << c.text;
}

TEST(Config, ReportsAllErrorsWithTheirPosition) {
  EXPECT_EQ(
      ErrorOf("[core]\nmax-backlog = 0\nmax-handshakes-in-flight = 0\n"),
      "f.toml:2:15: \"max-backlog\" in [core] is 0; it must be a whole number from 1 to 65536\n"
      "f.toml:3:28: \"max-handshakes-in-flight\" in [core] is 0; it must be a whole number from 1 to 65536");
  EXPECT_EQ(ErrorOf("[core\n").rfind("f.toml:1:6: ", 0), 0u) << ErrorOf("[core\n");
  EXPECT_EQ(LoadConfig("/no/such/file").status().message(),
            "/no/such/file: cannot be read: No such file or directory");
  EXPECT_EQ(LoadConfig("/tmp").status().message(), "/tmp: is not a regular file of at most 16 MiB");
}

TEST(Prefixes, AcceptsAllForms) {
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

TEST(Config, ReadsTheVerbsSection) {
  const auto options = [](std::string_view text) { return VerbsOf(ParseConfig(text, "f.toml").value()); };
  EXPECT_TRUE(options("").enabled);
  EXPECT_TRUE(options("").devices.empty());
  const provider::verbs::Options read = options(
      "[verbs]\nenabled = false\ndevices = [\"mlx5_0\", \"rxe0\"]\n"
      "max-inbound-read-limit = 0\nmax-outbound-read-limit = 16\n");
  EXPECT_FALSE(read.enabled);
  EXPECT_EQ(read.devices, (std::vector<std::string>{"mlx5_0", "rxe0"}));
  EXPECT_EQ(read.max_inbound_read_limit, 0u);
  EXPECT_EQ(read.max_outbound_read_limit, 16u);
  EXPECT_EQ(ErrorOf("[verbs]\ndevice = \"rxe0\"\n"),
            "f.toml:2:1: unknown key \"device\" in [verbs]; the nearest known one is \"devices\"");
  EXPECT_EQ(
      ErrorOf("[verbs]\nmax-outbound-read-limit = 256\n"),
      "f.toml:2:27: \"max-outbound-read-limit\" in [verbs] is 256; it must be a whole number from 0 to 255");
  EXPECT_EQ(ErrorOf("[verbs]\nenabled = 1\n"),
            "f.toml:2:11: \"enabled\" in [verbs] is a whole number; it must be true or false");
  // Devices are opened once: another choice of devices is pending until a restart.
  for (const char* changed : {"[verbs]\ndevices = [\"rxe0\"]\n", "[verbs]\nmax-inbound-read-limit = 1\n"}) {
    const Config wanted = ParseConfig(changed, "f.toml").value();
    EXPECT_NE(NeedsRestart(Config::Default(), wanted).find("[verbs]"), std::string::npos) << changed;
  }
}

TEST(Config, MetricsAreServedAtTheConfiguredAddress) {
  const auto read = [](const char* text) { return ParseConfig(text, "f.toml").value().metrics; };
  EXPECT_TRUE(read("").enabled);
  EXPECT_EQ(read("").listen->ToString(), "127.0.0.1:9885");
  EXPECT_FALSE(read("[metrics]\nlisten = \"\"\n").listen);
  const MetricsSettings all = read(
      "[metrics]\nenabled = false\nlisten = \"[::1]:80\"\nhost-names = [\"Node7.example\"]\nper-connection = "
      "20\n");
  EXPECT_FALSE(all.enabled);
  EXPECT_EQ(all.listen->ToString(), "[::1]:80");
  EXPECT_EQ(all.host_names, std::vector<std::string>{"node7.example"});
  EXPECT_EQ(all.per_connection, 20u);
  EXPECT_EQ(
      ErrorOf("[metrics]\nlisten = \"localhost:80\"\n"),
      "f.toml:2:10: \"listen\" in [metrics] is \"localhost:80\"; it must be an address with a port like "
      "\"127.0.0.1:9885\" or \"[::1]:9885\", or \"\"");
  EXPECT_NE(ErrorOf("[metrics]\nlisten = \"127.0.0.1\"\n").find("with a port"), std::string::npos);
  EXPECT_NE(ErrorOf("[metrics]\nper-connection = 1001\n").find("from 0 to 1000"), std::string::npos);
  const Config wanted = ParseConfig("[metrics]\nlisten = \"\"\n", "f.toml").value();
  EXPECT_EQ(NeedsRestart(Config::Default(), wanted), "[metrics]");
}

}  // namespace
}  // namespace nd
