// SPDX-License-Identifier: Apache-2.0
// The configuration file (docs/configuration.md): TOML text to checked settings, or every reason why not.
//
// Any thread; reads one file and, for user and group names, the system's databases, so not for the loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "daemon/core/policy.h"
#include "daemon/core/settings.h"
#include "nd/status.h"
#include "provider/registry_cm.h"

namespace nd {

// [broker]: what is made once, at the start.
struct BrokerSettings {
  std::string directory;  // Empty: the rule of docs/configuration.md.
  mode_t client_mode = 0666;
  mode_t admin_mode = 0600;
  std::optional<gid_t> client_group, admin_group;
  // Clients in another network namespace than the broker's use its addresses as if they were in it.
  bool allow_foreign_networks = false;
  std::string log_level = "info";
  // How long ports are kept for who held them when the broker ended unexpectedly.
  Duration reclaim_grace = std::chrono::seconds(10);
};

// [limits]: what clients may cost before any quota of the policy applies.
struct ServiceLimits {
  std::uint32_t unauthenticated = 64;
  std::uint32_t unauthenticated_per_uid = 48;
  std::uint32_t connections_per_uid = 2048;  // Lanes and control connections together.
  std::uint32_t admin_connections = 64;
  std::uint32_t pending_operations = 65536;         // Per session.
  std::uint32_t session_queue_bytes = 1024 * 1024;  // Answers that a client has not read yet.
  std::uint32_t watch_queue_events = 1024;
  std::uint32_t grpc_memory_bytes = 64 * 1024 * 1024;
  Duration hello_timeout = std::chrono::seconds(5);
};

// One setting by its name, for people: "core.max-backlog", "adapter.soft0.tcp-port".
struct Setting {
  enum class Origin { kDefault, kFile, kCommandLine };
  std::string name, value;
  Origin origin = Origin::kDefault;
  friend bool operator==(const Setting&, const Setting&) = default;
};
const char* Name(Setting::Origin origin);

// [history]: past connections, kept across restarts.
struct HistorySettings {
  bool enabled = true;
  std::string file;  // Empty: the rule of docs/configuration.md.
  std::uint32_t keep_days = 30, max_rows = 100'000;
};

// [metrics]: what is told over HTTP.
struct MetricsSettings {
  bool enabled = true;
  std::optional<Address> listen = Address::V4({127, 0, 0, 1}, 9885);  // Absent: only the socket.
  std::uint32_t per_connection = 0;
  std::vector<std::string> host_names;
};

struct Config {
  std::string file;  // Empty: none was read.
  // Every setting that there is, with the value it has; in the order of docs/configuration.md.
  std::vector<Setting> settings;
  BrokerSettings broker;
  ServiceLimits limits;
  core::Settings core;
  std::vector<core::Rule> rules;
  provider::ManagerOptions manager;
  HistorySettings history;
  MetricsSettings metrics;

  // Without any file: one adapter "soft0" with every address of the host.
  static Config Default();
  // What the command line says instead: the caller has changed the value, this changes what is shown.
  void Override(std::string_view name, std::string value);
};

// INVALID_PARAMETER: the message has one line per mistake, "FILE:LINE:COLUMN: what is wrong; what is right".
Result<Config> ParseConfig(std::string_view text, const std::string& file);
// The same for a file; UNSUCCESSFUL with the reason when it cannot be read.
Result<Config> LoadConfig(const std::string& file);

// What differs between the two that only a restart can change, as a list of tables; empty: nothing.
std::string NeedsRestart(const Config& running, const Config& wanted);
// The settings in force once a running broker has read `loaded`: what needs a restart is as it was.
std::vector<Setting> SettingsAfterReload(const Config& running, const Config& loaded);

}  // namespace nd
