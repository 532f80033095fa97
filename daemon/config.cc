// SPDX-License-Identifier: Apache-2.0
// Which keys exist, with their ranges, and what two of them must not say together.
#include "daemon/config.h"

#include <grp.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "daemon/config_reader.h"
#include "daemon/config_rules.h"
#include "daemon/ops/logging.h"

namespace nd {
namespace {

using config::Mistakes;
using config::TableReader;
using std::chrono::hours;
using std::chrono::milliseconds;

void ReadGroup(TableReader& reader, std::string_view key, std::optional<gid_t>* out) {
  std::string name;
  if (!reader.String(key, &name)) return;
  if (const group* entry = ::getgrnam(name.c_str())) {
    *out = entry->gr_gid;
  } else {
    reader.Wrong(*reader.table().get(key), "this system has no group \"" + name + "\"");
  }
}

void ReadBroker(TableReader reader, BrokerSettings* out) {
  if (reader.String("directory", &out->directory) && !out->directory.starts_with('/')) {
    reader.Wrong(*reader.table().get("directory"), "\"directory\" in [broker] must be an absolute path");
  }
  reader.Mode("client-socket-mode", &out->client_mode);
  reader.Mode("admin-socket-mode", &out->admin_mode);
  ReadGroup(reader, "client-socket-group", &out->client_group);
  ReadGroup(reader, "admin-socket-group", &out->admin_group);
  std::string foreign;
  if (reader.String("foreign-network-namespaces", &foreign)) {
    out->allow_foreign_networks = foreign == "allow";
    if (foreign != "allow" && foreign != "refuse") {
      reader.Wrong(*reader.table().get("foreign-network-namespaces"),
                   "\"foreign-network-namespaces\" in [broker] is \"" + foreign +
                       "\"; it must be \"refuse\" or \"allow\"");
    }
  }
  if (reader.String("log-level", &out->log_level) && !ops::IsLogLevel(out->log_level)) {
    reader.Wrong(*reader.table().get("log-level"),
                 "\"log-level\" in [broker] is \"" + out->log_level +
                     "\"; it must be \"trace\", \"debug\", \"info\", \"warning\", \"error\" or \"off\"");
  }
  reader.Done();
}

void ReadServiceLimits(TableReader reader, Config* out) {
  ServiceLimits& limits = out->limits;
  reader.Number("unauthenticated", 2, 65536, &limits.unauthenticated);
  reader.Number("unauthenticated-per-uid", 2, 65536, &limits.unauthenticated_per_uid);
  reader.Number("connections-per-uid", 2, 1'000'000, &limits.connections_per_uid);
  reader.Number("admin-connections", 1, 65536, &limits.admin_connections);
  reader.Number("pending-operations", 16, 16'000'000, &limits.pending_operations);
  reader.Number("session-queue-bytes", 128 * 1024, 1 << 30, &limits.session_queue_bytes);
  reader.Number("watch-queue-events", 16, 1'000'000, &limits.watch_queue_events);
  reader.Number("grpc-memory-bytes", 8 << 20, std::int64_t{1} << 31, &limits.grpc_memory_bytes);
  reader.Number("half-open-connections", 16, 1'000'000, &out->manager.soft.max_half_open);
  reader.Done();
}

void ReadCore(TableReader reader, core::Settings* out) {
  reader.Number("max-backlog", 1, 65536, &out->max_backlog);
  reader.Number("max-handshakes-in-flight", 1, 65536, &out->max_handshakes_in_flight);
  reader.Number("ephemeral-first", 1, 65535, &out->ephemeral_first);
  reader.Number("ephemeral-last", 1, 65535, &out->ephemeral_last);
  reader.Number("privileged-ports-below", 0, 65535, &out->privileged_ports_below);
  reader.Done();
  if (out->ephemeral_last < out->ephemeral_first) {
    reader.Wrong(reader.table(), "\"ephemeral-last\" in [core] must not be less than \"ephemeral-first\"");
  }
}

void ReadTimeouts(TableReader reader, Config* out) {
  reader.Time("disconnect", milliseconds(10), hours(1), &out->core.disconnect_timeout);
  reader.Time("establish", Duration::zero(), hours(24), &out->core.establish_timeout);
  reader.Time("handshake-pace", milliseconds(1), hours(1), &out->core.handshake_pace);
  reader.Time("connect", milliseconds(10), hours(1), &out->manager.soft.connect_timeout);
  reader.Time("request", milliseconds(10), hours(1), &out->manager.soft.request_timeout);
  reader.Time("keepalive", std::chrono::seconds(1), hours(24), &out->manager.soft.keepalive);
  reader.Time("hello", milliseconds(100), hours(1), &out->limits.hello_timeout);
  reader.Done();
}

void ReadCompat(TableReader reader, core::Settings* out) {
  reader.Bool("accept-refused-on-reject", &out->accept_refused_on_reject);
  reader.Bool("allow-same-owner-bind-sharing", &out->allow_same_owner_bind_sharing);
  reader.Bool("bad-network-name", &out->bad_network_name);
  reader.Bool("flush-on-peer-disconnect", &out->flush_on_peer_disconnect);
  reader.Bool("notify-success-on-local-disconnect", &out->notify_success_on_local_disconnect);
  reader.Done();
}

void ReadVerbs(TableReader reader, provider::verbs::Options* out) {
  reader.Bool("enabled", &out->enabled);
  reader.Strings("devices", [&](const std::string& name, const toml::node&) { out->devices.push_back(name); });
  reader.Done();
}

void ReadAdapters(TableReader& root, Mistakes& mistakes, Config* out) {
  std::set<std::string> names;
  std::vector<provider::soft::AdapterOptions> adapters;
  for (const toml::table* table : root.Tables("adapter")) {
    adapters.push_back(config::ReadAdapter(TableReader(*table, "[[adapter]]", mistakes)));
    if (!names.insert(adapters.back().name).second) {
      mistakes.Add(table->source(), "a second [[adapter]] is called \"" + adapters.back().name + "\"");
    }
  }
  if (!adapters.empty()) out->manager.soft.adapters = std::move(adapters);
}

}  // namespace

Config Config::Default() {
  Config config;
  config.manager.soft.adapters.emplace_back();
  return config;
}

Result<Config> ParseConfig(std::string_view text, const std::string& file) {
  Mistakes mistakes(file);
  Config out = Config::Default();
  out.file = file;
  toml::table root_table;
  try {
    root_table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    mistakes.Add(error.source(), error.description());
    return Status(StatusCode::kInvalidParameter, mistakes.text());
  }
  TableReader root(root_table, "the file", mistakes);
  const auto section = [&](const char* key, auto read) {
    if (const toml::table* table = root.Table(key)) {
      read(TableReader(*table, "[" + std::string(key) + "]", mistakes));
    }
  };
  section("broker", [&](TableReader reader) { ReadBroker(std::move(reader), &out.broker); });
  section("limits", [&](TableReader reader) { ReadServiceLimits(std::move(reader), &out); });
  section("core", [&](TableReader reader) { ReadCore(std::move(reader), &out.core); });
  section("timeouts", [&](TableReader reader) { ReadTimeouts(std::move(reader), &out); });
  section("compat", [&](TableReader reader) { ReadCompat(std::move(reader), &out.core); });
  section("verbs", [&](TableReader reader) { ReadVerbs(std::move(reader), &out.manager.verbs); });
  ReadAdapters(root, mistakes, &out);
  for (const toml::table* table : root.Tables("rule")) {
    out.rules.push_back(config::ReadRule(TableReader(*table, "[[rule]]", mistakes), out.rules.size() + 1));
  }
  root.Done();
  if (!mistakes.empty()) return Status(StatusCode::kInvalidParameter, mistakes.text());
  return out;
}

Result<Config> LoadConfig(const std::string& file) {
  struct stat st;
  constexpr off_t kMost = 16 << 20;
  if (::stat(file.c_str(), &st) != 0) {
    return Status(StatusCode::kUnsuccessful, file + ": cannot be read: " + std::strerror(errno));
  }
  if (!S_ISREG(st.st_mode) || st.st_size > kMost) {
    return Status(StatusCode::kUnsuccessful, file + ": is not a regular file of at most 16 MiB");
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream || (st.st_size > 0 && !text)) {
    return Status(StatusCode::kUnsuccessful, file + ": cannot be read: " + std::strerror(errno));
  }
  return ParseConfig(text.str(), file);
}

std::string NeedsRestart(const Config& running, const Config& wanted) {
  std::string out;
  const auto differs = [&](const char* table, bool different) {
    if (different) out += (out.empty() ? "" : ", ") + std::string(table);
  };
  const auto broker = [](const BrokerSettings& b) {
    return std::tie(b.directory, b.client_mode, b.admin_mode, b.client_group, b.admin_group,
                    b.allow_foreign_networks);
  };
  differs("[broker]", broker(running.broker) != broker(wanted.broker));
  const auto limits = [](const Config& c) {
    const ServiceLimits& l = c.limits;
    return std::tie(l.unauthenticated, l.unauthenticated_per_uid, l.connections_per_uid, l.admin_connections,
                    l.pending_operations, l.session_queue_bytes, l.watch_queue_events, l.grpc_memory_bytes,
                    c.manager.soft.max_half_open);
  };
  differs("[limits]", limits(running) != limits(wanted));
  const auto times = [](const Config& c) {
    const provider::soft::Options& s = c.manager.soft;
    return std::tie(s.connect_timeout, s.request_timeout, s.keepalive, c.limits.hello_timeout);
  };
  differs("connect, request, keepalive or hello in [timeouts]", times(running) != times(wanted));
  const auto verbs = [](const Config& c) { return std::tie(c.manager.verbs.enabled, c.manager.verbs.devices); };
  differs("[verbs]", verbs(running) != verbs(wanted));
  const auto same_adapter = [](const provider::soft::AdapterOptions& a,
                               const provider::soft::AdapterOptions& b) {
    const auto same_network = [](const auto& x, const auto& y) {
      return x.address == y.address && x.bits == y.bits;
    };
    const auto rest = [](const auto& x) {
      return std::tie(x.name, x.addresses, x.tcp_mode, x.tcp_port, x.crc, x.max_inbound_read_limit,
                      x.max_outbound_read_limit);
    };
    return rest(a) == rest(b) && std::equal(a.tcp_networks.begin(), a.tcp_networks.end(),
                                            b.tcp_networks.begin(), b.tcp_networks.end(), same_network);
  };
  const auto& have = running.manager.soft.adapters;
  const auto& want = wanted.manager.soft.adapters;
  differs("[[adapter]]", !std::equal(have.begin(), have.end(), want.begin(), want.end(), same_adapter));
  return out;
}

}  // namespace nd
