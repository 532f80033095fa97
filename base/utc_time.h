// SPDX-License-Identifier: Apache-2.0
// The parts of a time in UTC, for std::strftime(): gmtime_r() is not on every system.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace nd {

inline std::tm UtcParts(std::int64_t unix_seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_seconds)};
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day day(midnight);
  const std::chrono::hh_mm_ss clock(time - midnight);
  const std::chrono::sys_days new_year(day.year() / std::chrono::January / 1);
  std::tm parts{};
  parts.tm_year = static_cast<int>(day.year()) - 1900;
  parts.tm_mon = static_cast<int>(static_cast<unsigned>(day.month())) - 1;
  parts.tm_mday = static_cast<int>(static_cast<unsigned>(day.day()));
  parts.tm_hour = static_cast<int>(clock.hours().count());
  parts.tm_min = static_cast<int>(clock.minutes().count());
  parts.tm_sec = static_cast<int>(clock.seconds().count());
  parts.tm_wday = static_cast<int>(std::chrono::weekday(midnight).c_encoding());
  parts.tm_yday = static_cast<int>((midnight - new_year).count());
  return parts;
}

}  // namespace nd
