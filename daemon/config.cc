// SPDX-License-Identifier: Apache-2.0
// Which keys exist, with their ranges, and what two of them must not say together.
#include "daemon/config.h"

#include <grp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "daemon/config_reader.h"
#include "daemon/config_rules.h"
#include "daemon/ops/logging.h"

namespace nd {
namespace {

using config::Findings;
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
  std::string foreign = out->allow_foreign_networks ? "allow" : "refuse";
  if (reader.String("foreign-network-namespaces", &foreign)) {
    out->allow_foreign_networks = foreign == "allow";
    if (foreign != "allow" && foreign != "refuse") {
      reader.Wrong(*reader.table().get("foreign-network-namespaces"),
                   "\"foreign-network-namespaces\" in [broker] is \"" + foreign +
                       "\"; it must be \"refuse\" or \"allow\"");
    }
  }
  reader.Time("reclaim-grace", Duration::zero(), std::chrono::minutes(10), &out->reclaim_grace);
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
  reader.Strings("devices",
                 [&](const std::string& name, const toml::node&) { out->devices.push_back(name); });
  reader.Number("max-inbound-read-limit", 0, 255, &out->max_inbound_read_limit);
  reader.Number("max-outbound-read-limit", 0, 255, &out->max_outbound_read_limit);
  reader.Done();
}

void ReadHistory(TableReader reader, HistorySettings* out) {
  reader.Bool("enabled", &out->enabled);
  if (reader.String("file", &out->file) && !out->file.starts_with('/')) {
    reader.Wrong(*reader.table().get("file"), "\"file\" in [history] must be an absolute path");
  }
  reader.Number("keep-days", 1, 36500, &out->keep_days);
  reader.Number("max-rows", 100, 10'000'000, &out->max_rows);
  reader.Done();
}

void ReadMetrics(TableReader reader, MetricsSettings* out) {
  reader.Bool("enabled", &out->enabled);
  std::string listen = out->listen->ToString();
  if (reader.String("listen", &listen)) {
    const Result<Address> address = Address::Parse(listen);
    if (listen.empty()) {
      out->listen.reset();
    } else if (address.ok() && address->port() != 0) {
      out->listen = *address;
    } else {
      reader.Wrong(
          *reader.table().get("listen"),
          "\"listen\" in [metrics] is \"" + listen +
              "\"; it must be an address with a port like \"127.0.0.1:9885\" or \"[::1]:9885\", or \"\"");
    }
  }
  reader.Strings("host-names", [&](const std::string& name, const toml::node&) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    out->host_names.push_back(std::move(lower));
  });
  reader.Number("per-connection", 0, 1000, &out->per_connection);
  reader.Done();
}

void ReadAdapters(TableReader& root, Findings& findings, Config* out) {
  std::set<std::string> names;
  const toml::table none;
  std::vector<const toml::table*> tables = root.Tables("adapter");
  if (tables.empty()) tables.push_back(&none);
  for (const toml::table* table : tables) {
    out->manager.soft.adapters.push_back(config::ReadAdapter(TableReader(*table, "[[adapter]]", findings)));
    const std::string& name = out->manager.soft.adapters.back().name;
    if (!names.insert(name).second) {
      findings.Add(table->source(), "a second [[adapter]] is called \"" + name + "\"");
    }
  }
}

// The broker takes these over while it runs.
bool TakesEffectAtReload(std::string_view name) {
  static constexpr std::string_view kSections[] = {"core.", "compat.", "rule."};
  static constexpr std::string_view kSettings[] = {"broker.log-level", "timeouts.disconnect",
                                                   "timeouts.establish", "timeouts.handshake-pace"};
  return std::ranges::any_of(kSections, [&](std::string_view s) { return name.starts_with(s); }) ||
         std::ranges::find(kSettings, name) != std::end(kSettings);
}

std::string_view SectionOf(std::string_view name) {
  return name.substr(0, name.find('.'));
}

// How NeedsRestart() calls what a setting belongs to.
std::string TableOf(std::string_view name) {
  const std::string section(SectionOf(name));
  if (section == "timeouts") return "connect, request, keepalive or hello in [timeouts]";
  return section == "adapter" ? "[[adapter]]" : "[" + section + "]";
}

}  // namespace

const char* Name(Setting::Origin origin) {
  switch (origin) {
    case Setting::Origin::kDefault:
      return "default";
    case Setting::Origin::kFile:
      return "file";
    case Setting::Origin::kCommandLine:
      return "command line";
  }
  return "?";
}

Config Config::Default() {
  return ParseConfig({}, {}).value();
}

void Config::Override(std::string_view name, std::string value) {
  for (Setting& setting : settings) {
    if (setting.name != name) continue;
    setting.value = std::move(value);
    setting.origin = Setting::Origin::kCommandLine;
    return;
  }
}

Result<Config> ParseConfig(std::string_view text, const std::string& file) {
  Findings findings(file);
  Config out;
  out.file = file;
  toml::table root_table;
  try {
    root_table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    findings.Add(error.source(), error.description());
    return Status(StatusCode::kInvalidParameter, findings.text());
  }
  TableReader root(root_table, "the file", findings);
  const toml::table empty;
  const auto section = [&](const char* key, auto read) {
    const toml::table* const table = root.Table(key);
    read(TableReader(table == nullptr ? empty : *table, "[" + std::string(key) + "]", findings));
  };
  section("broker", [&](TableReader reader) { ReadBroker(std::move(reader), &out.broker); });
  section("limits", [&](TableReader reader) { ReadServiceLimits(std::move(reader), &out); });
  section("core", [&](TableReader reader) { ReadCore(std::move(reader), &out.core); });
  section("timeouts", [&](TableReader reader) { ReadTimeouts(std::move(reader), &out); });
  section("compat", [&](TableReader reader) { ReadCompat(std::move(reader), &out.core); });
  section("verbs", [&](TableReader reader) { ReadVerbs(std::move(reader), &out.manager.verbs); });
  section("history", [&](TableReader reader) { ReadHistory(std::move(reader), &out.history); });
  section("metrics", [&](TableReader reader) { ReadMetrics(std::move(reader), &out.metrics); });
  ReadAdapters(root, findings, &out);
  for (const toml::table* table : root.Tables("rule")) {
    out.rules.push_back(config::ReadRule(TableReader(*table, "[[rule]]", findings), out.rules.size() + 1));
  }
  root.Done();
  out.settings = std::move(findings.settings);
  if (!findings.empty()) return Status(StatusCode::kInvalidParameter, findings.text());
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
  // The order of adapters counts, so each table is compared as a whole.
  std::vector<std::string> tables;
  const auto texts = [&tables](const Config& config) {
    std::map<std::string, std::string> text;
    for (const Setting& setting : config.settings) {
      if (TakesEffectAtReload(setting.name)) continue;
      const std::string table = TableOf(setting.name);
      if (std::ranges::find(tables, table) == tables.end()) tables.push_back(table);
      text[table] += setting.name + "=" + setting.value + "\n";
    }
    return text;
  };
  std::map<std::string, std::string> have = texts(running), want = texts(wanted);
  std::string out;
  for (const std::string& table : tables) {
    if (have[table] != want[table]) out += (out.empty() ? "" : ", ") + table;
  }
  return out;
}

std::vector<Setting> SettingsAfterReload(const Config& running, const Config& loaded) {
  std::vector<Setting> settings;
  std::set<std::string_view> done;
  for (const Setting& first : loaded.settings) {
    const std::string_view section = SectionOf(first.name);
    if (!done.insert(section).second) continue;
    const auto take = [&](const Config& from, bool live) {
      for (const Setting& setting : from.settings) {
        if (SectionOf(setting.name) == section && TakesEffectAtReload(setting.name) == live) {
          settings.push_back(setting);
        }
      }
    };
    take(running, false);
    take(loaded, true);
  }
  return settings;
}

}  // namespace nd
