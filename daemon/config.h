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

struct Config {
  std::string file;  // Empty: none was read.
  BrokerSettings broker;
  ServiceLimits limits;
  core::Settings core;
  std::vector<core::Rule> rules;
  provider::ManagerOptions manager;

  // Without any file: one adapter "soft0" with every address of the host.
  static Config Default();
};

// INVALID_PARAMETER: the message has one line per mistake, "FILE:LINE:COLUMN: what is wrong; what is right".
Result<Config> ParseConfig(std::string_view text, const std::string& file);
// The same for a file; UNSUCCESSFUL with the reason when it cannot be read.
Result<Config> LoadConfig(const std::string& file);

// What differs between the two that only a restart can change, as a list of tables; empty: nothing.
std::string NeedsRestart(const Config& running, const Config& wanted);

}  // namespace nd
