// SPDX-License-Identifier: Apache-2.0
// The rows of the history: past connections and actions of administrators. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nd/types.h"

namespace nd::state {

// Microseconds since 1970, UTC.
using UnixTime = std::int64_t;

struct PhaseRow {
  std::string name;
  double seconds = 0;
  friend bool operator==(const PhaseRow&, const PhaseRow&) = default;
};

struct HistoryRow {
  std::string id;  // As ndctl shows it.
  UnixTime started = 0, ended = 0;
  std::optional<UnixTime> established;
  Address local, peer;
  bool passive = false;
  std::uint32_t pid = 0, uid = 0;
  std::string command, application, unit, container, cgroup;
  std::string adapter, transport;
  std::string outcome;  // "closed", "failed", "broken", "killed", "died"
  std::string status, detail, reason;
  std::uint64_t tx_bytes = 0, rx_bytes = 0, tx_sends = 0, rx_sends = 0, tx_writes = 0, rx_writes = 0,
                tx_reads = 0, rx_reads = 0, errors = 0, stalls = 0, wakeups = 0;
  std::vector<PhaseRow> phases;
  friend bool operator==(const HistoryRow&, const HistoryRow&) = default;
};

// An action of an administrator.
struct AuditRow {
  UnixTime at = 0;
  std::uint32_t uid = 0, pid = 0;
  std::string type;     // "admin.connection-kill"
  std::string object;   // Id or address; may be empty.
  std::string outcome;  // ND status name.
  std::string message;
  friend bool operator==(const AuditRow&, const AuditRow&) = default;
};

struct HistoryFilter {
  std::optional<UnixTime> since, until;  // Of the end; both included.
  std::uint32_t limit = 1000;
  std::string application;  // Its chosen name, else its command; empty: all.
  Address peer;             // Port 0: any; unspecified family: all.
  std::string adapter;      // Empty: all.
  bool failed_only = false;
};

struct HistoryPage {
  std::vector<HistoryRow> rows;  // Newest end first.
  bool truncated = false;        // There are more than the limit.
};

}  // namespace nd::state
