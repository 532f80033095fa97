// SPDX-License-Identifier: Apache-2.0
// The allowed keys with their ranges, and the combinations that are refused.
#include "daemon/config.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/os/error_text.h"
#include "base/os/file.h"
#include "base/os/host.h"
#include "daemon/config_provider.h"
#include "daemon/config_reader.h"
#include "daemon/config_rules.h"
#include "daemon/ops/logging.h"
#include "provider/registry_cm.h"

namespace nd {
namespace {

using config::Findings;
using config::TableReader;
using std::chrono::hours;
using std::chrono::milliseconds;

void ReadGroup(TableReader& reader, std::string_view key, std::optional<std::uint32_t>* out) {
  std::string name;
  if (!reader.String(key, &name)) return;
  if (const std::optional<std::uint32_t> group = os::FindGroup(name)) {
    *out = group;
  } else {
    reader.Wrong(*reader.table().get(key), "this system has no group \"" + name + "\"");
  }
}

void ReadBroker(TableReader reader, BrokerSettings* out) {
  if (reader.String("directory", &out->directory) && !std::filesystem::path(out->directory).is_absolute()) {
    reader.Wrong(*reader.table().get("directory"), "\"directory\" in [broker] must be an absolute path");
  }
  reader.Mode("client-socket-mode", &out->client_mode);
  reader.Mode("admin-socket-mode", &out->admin_mode);
  ReadGroup(reader, "client-socket-group", &out->client_group);
  ReadGroup(reader, "admin-socket-group", &out->admin_group);
  reader.Bool("grpc", &out->grpc);
  std::string namespaces = out->allow_foreign_admins ? "any" : "own";
  if (reader.String("admin-namespaces", &namespaces)) {
    out->allow_foreign_admins = namespaces == "any";
    if (namespaces != "any" && namespaces != "own") {
      reader.Wrong(
          *reader.table().get("admin-namespaces"),
          "\"admin-namespaces\" in [broker] is \"" + namespaces + "\"; it must be \"own\" or \"any\"");
    }
  }
  std::string foreign = "refuse";
  if (reader.String("foreign-network-namespaces", &foreign)) {
    out->foreign_networks = foreign == "allow"   ? ForeignNetworks::kAllow
                            : foreign == "serve" ? ForeignNetworks::kServe
                                                 : ForeignNetworks::kRefuse;
    if (foreign != "allow" && foreign != "refuse" && foreign != "serve") {
      reader.Wrong(*reader.table().get("foreign-network-namespaces"),
                   "\"foreign-network-namespaces\" in [broker] is \"" + foreign +
                       "\"; it must be \"refuse\", \"allow\" or \"serve\"");
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
  config::ReadShared(reader, "limits", out->providers);
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
  config::ReadShared(reader, "timeouts", out->providers);
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

void ReadHistory(TableReader reader, HistorySettings* out) {
  reader.Bool("enabled", &out->enabled);
  if (reader.String("file", &out->file) && !out->file.empty() &&
      !std::filesystem::path(out->file).is_absolute()) {
    reader.Wrong(*reader.table().get("file"), "\"file\" in [history] must be an absolute path, or \"\"");
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

// Returns true when a reload applies the setting.
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

// Returns the table of a setting, as named by NeedsRestart(). A reload applies a part of [timeouts], so the
// other settings are named: "connect, request, keepalive or hello in [timeouts]".
std::string TableOf(const Setting& setting, const std::vector<Setting>& settings) {
  const std::string section(SectionOf(setting.name));
  if (section != "timeouts") return setting.is_list_entry() ? "[[" + section + "]]" : "[" + section + "]";
  std::vector<std::string> keys;
  for (const Setting& other : settings) {
    if (SectionOf(other.name) == section && !TakesEffectAtReload(other.name)) {
      keys.push_back(other.name.substr(section.size() + 1));
    }
  }
  std::string names;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    names += (i == 0 ? "" : i + 1 == keys.size() ? " or " : ", ") + keys[i];
  }
  return names + " in [timeouts]";
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
  return ParseConfig(text, file, provider::MakeDaemonProviders());
}

Result<Config> ParseConfig(std::string_view text, const std::string& file,
                           provider::DaemonProviders providers) {
  Findings findings(file);
  Config out;
  out.providers = std::move(providers);
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
  const auto section = [&](const std::string& key, auto read) {
    const toml::table* const table = root.Table(key);
    read(TableReader(table == nullptr ? empty : *table, "[" + key + "]", findings));
  };
  section("broker", [&](TableReader reader) { ReadBroker(std::move(reader), &out.broker); });
  section("limits", [&](TableReader reader) { ReadServiceLimits(std::move(reader), &out); });
  section("core", [&](TableReader reader) { ReadCore(std::move(reader), &out.core); });
  section("timeouts", [&](TableReader reader) { ReadTimeouts(std::move(reader), &out); });
  section("compat", [&](TableReader reader) { ReadCompat(std::move(reader), &out.core); });
  for (const std::shared_ptr<provider::DaemonProvider>& provider : out.providers) {
    for (const std::string_view table : provider->tables()) {
      section(std::string(table), [&](TableReader reader) { config::ReadTable(reader, table, *provider); });
    }
  }
  section("history", [&](TableReader reader) { ReadHistory(std::move(reader), &out.history); });
  section("metrics", [&](TableReader reader) { ReadMetrics(std::move(reader), &out.metrics); });
  for (const std::shared_ptr<provider::DaemonProvider>& provider : out.providers) {
    for (const std::string_view list : provider->lists()) config::ReadList(root, list, *provider);
  }
  for (const toml::table* table : root.Tables("rule")) {
    out.rules.push_back(config::ReadRule(TableReader(*table, "[[rule]]", findings), out.rules.size() + 1));
  }
  root.Done();
  out.settings = std::move(findings.settings);
  if (!findings.empty()) return Status(StatusCode::kInvalidParameter, findings.text());
  return out;
}

Result<Config> LoadConfig(const std::string& file) {
  os::FileFacts facts;
  constexpr std::uint64_t kMost = 16 << 20;
  if (const int error = os::Look(file, &facts); error != 0) {
    return Status(StatusCode::kUnsuccessful, file + ": cannot be read: " + os::ErrorText(error));
  }
  if (facts.kind != os::FileFacts::Kind::kFile || facts.size > kMost) {
    return Status(StatusCode::kUnsuccessful, file + ": is not a regular file of at most 16 MiB");
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream || (facts.size > 0 && !text)) {
    return Status(StatusCode::kUnsuccessful, file + ": cannot be read: " + os::ErrorText(errno));
  }
  return ParseConfig(text.str(), file);
}

std::string NeedsRestart(const Config& running, const Config& wanted) {
  // The order of adapters is significant, so each table is compared as a whole.
  std::vector<std::string> tables;
  const auto texts = [&tables](const Config& config) {
    std::map<std::string, std::string> text;
    for (const Setting& setting : config.settings) {
      if (TakesEffectAtReload(setting.name)) continue;
      const std::string table = TableOf(setting, config.settings);
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

std::string ChangedSettings(const std::vector<Setting>& before, const std::vector<Setting>& after) {
  std::map<std::string_view, std::string_view> had;
  for (const Setting& setting : before) had[setting.name] = setting.value;
  std::string out;
  const auto add = [&out](std::string_view name, std::string_view value) {
    out.append(out.empty() ? "" : ", ").append(name).append(" = ").append(value.empty() ? "\"\"" : value);
  };
  for (const Setting& setting : after) {
    const auto old = had.extract(setting.name);
    if (!old || old.mapped() != setting.value) add(setting.name, setting.value);
  }
  for (const auto& [name, value] : had) add(name, "(removed)");
  return out;
}

}  // namespace nd
