// SPDX-License-Identifier: Apache-2.0
// Reads the configuration file (docs/configuration.md): TOML text to checked settings, or all its errors.
//
// Any thread; reads one file and, for user and group names, the databases of the system, so it must not run
// on the loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "daemon/core/policy.h"
#include "daemon/core/settings.h"
#include "nd/status.h"
#include "provider/daemon_provider.h"

namespace nd {

// The service for clients in another network namespace than the broker's.
enum class ForeignNetworks : std::uint8_t {
  kRefuse,  // The client gets the broker's addresses, as if it were in the broker's namespace.
  // The client gets the addresses of its own namespace; the library gives sockets of it to the broker.
  kAllow,
  kServe,  // The addresses of their own namespace; the library gives the broker sockets of it.
};

// [broker]: settings of the start.
struct BrokerSettings {
  std::string directory;  // Empty: the rule of docs/configuration.md.
  std::uint32_t client_mode = 0666, admin_mode = 0600;
  std::optional<std::uint32_t> client_group, admin_group;
  ForeignNetworks foreign_networks = ForeignNetworks::kRefuse;
  // Applications may hold their session over gRPC, on broker.sock; libndbroker uses lane.sock.
  bool grpc = true;
  // Callers in another pid, network or user namespace than the broker may use the admin and metrics sockets.
  bool allow_foreign_admins = false;
  std::string log_level = "info";
  // How long ports are kept for their holders after an unexpected end of the broker.
  Duration reclaim_grace = std::chrono::seconds(10);
};

// [limits]: bounds on clients before any quota of the policy applies.
struct ServiceLimits {
  std::uint32_t unauthenticated = 64;
  std::uint32_t unauthenticated_per_uid = 48;
  std::uint32_t connections_per_uid = 2048;  // Lanes and control connections together.
  std::uint32_t admin_connections = 64;
  std::uint32_t pending_operations = 65536;         // Per session.
  std::uint32_t session_queue_bytes = 1024 * 1024;  // Messages that a client has not read yet.
  std::uint32_t watch_queue_events = 1024;
  std::uint32_t grpc_memory_bytes = 64 * 1024 * 1024;
  Duration hello_timeout = std::chrono::seconds(5);
};

// One setting by its name, for display: "core.max-backlog", "adapter.soft0.tcp-port".
struct Setting {
  enum class Origin { kDefault, kFile, kCommandLine };
  std::string name, value;
  Origin origin = Origin::kDefault;
  bool is_list_entry() const { return std::ranges::count(name, '.') > 1; }
  friend bool operator==(const Setting&, const Setting&) = default;
};
const char* Name(Setting::Origin origin);

// [history]: past connections, kept across restarts.
struct HistorySettings {
  bool enabled = true;
  std::string file;  // Empty: the rule of docs/configuration.md.
  std::uint32_t keep_days = 30, max_rows = 100'000;
};

// [metrics]: the HTTP interface.
struct MetricsSettings {
  bool enabled = true;
  std::optional<Address> listen = Address::V4({127, 0, 0, 1}, 9885);  // Absent: only the Unix socket.
  std::uint32_t per_connection = 0;
  std::vector<std::string> host_names;
};

struct Config {
  std::string file;  // Empty: no file was read.
  // Every setting with its value, in the order of docs/configuration.md.
  std::vector<Setting> settings;
  BrokerSettings broker;
  ServiceLimits limits;
  core::Settings core;
  std::vector<core::Rule> rules;
  provider::DaemonProviders providers;  // Each with its settings. Copies share them.
  HistorySettings history;
  MetricsSettings metrics;

  // The configuration without a file: one adapter "soft0" with every address of the host.
  static Config Default();
  // Records a value from the command line: the caller has changed the setting, this changes the displayed
  // value.
  void Override(std::string_view name, std::string value);
};

// INVALID_PARAMETER: the message has one line for each error, "FILE:LINE:COLUMN: the error; the expected
// value".
// `providers` have their default settings; the function of one argument less takes the registry's.
Result<Config> ParseConfig(std::string_view text, const std::string& file,
                           provider::DaemonProviders providers);
Result<Config> ParseConfig(std::string_view text, const std::string& file);
// As above for a file; UNSUCCESSFUL with the reason when it cannot be read.
Result<Config> LoadConfig(const std::string& file);

// Returns the tables with differences that need a restart, as a list; empty without any.
std::string NeedsRestart(const Config& running, const Config& wanted);
// Returns the settings in force after a running broker has read `loaded`: settings that need a restart keep
// their value.
std::vector<Setting> SettingsAfterReload(const Config& running, const Config& loaded);
// Names each setting whose value differs between the two lists, with its new value: "core.max-backlog = 5".
// Empty: none differs.
std::string ChangedSettings(const std::vector<Setting>& before, const std::vector<Setting>& after);

}  // namespace nd
