// SPDX-License-Identifier: Apache-2.0
// An event of the Windows event log for a line of the broker's log. Its strings are data of the event: a
// query finds the events of one connection by its id, as the fields of the systemd journal do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/ops/logging.h"

namespace nd::ops {

// The messages of daemon/events.mc. Each shows its first string.
inline constexpr std::uint32_t kLine = 1;        // {line}
inline constexpr std::uint32_t kAboutEvent = 2;  // {line, event of the broker, id of its object}

struct LogEvent {
  std::uint16_t type = 0;  // EVENTLOG_ERROR_TYPE and so on.
  std::uint32_t id = 0;
  std::vector<std::string> strings;

  bool operator==(const LogEvent&) const = default;
};

// Nothing for a line that only helps to find faults. A line about an event of the broker is kept at every
// level. Pure.
std::optional<LogEvent> EventOf(int priority, std::string_view message, const LogFields& fields);

// Each line of SendToJournal() is appended to this file, and not written to standard error. At most once,
// before the first line. False: it cannot be opened.
bool LogToFile(const std::string& path);

}  // namespace nd::ops
