// SPDX-License-Identifier: Apache-2.0
// Uses the calendar of std::chrono, because strptime() accepts impossible dates.
#include "daemon/shell/time_text.h"

#include <charconv>
#include <cstdio>

namespace nd::service {
namespace {

using std::chrono::floor;

// Takes exactly `digits` digits from the front, within the bounds.
std::optional<int> Take(std::string_view* text, std::size_t digits, int min, int max) {
  if (text->size() < digits) return std::nullopt;
  int value = 0;
  for (const char c : text->substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text->remove_prefix(digits);
  return value < min || value > max ? std::nullopt : std::optional(value);
}

bool TakeChar(std::string_view* text, char upper, char lower) {
  if (text->empty() || (text->front() != upper && text->front() != lower)) return false;
  text->remove_prefix(1);
  return true;
}

std::optional<std::chrono::nanoseconds> TakeFraction(std::string_view* text) {
  if (!TakeChar(text, '.', '.')) return std::chrono::nanoseconds(0);
  std::int64_t value = 0;
  int digits = 0;
  while (!text->empty() && text->front() >= '0' && text->front() <= '9' && digits < 9) {
    value = value * 10 + (text->front() - '0');
    text->remove_prefix(1);
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  while (digits++ < 9) value *= 10;
  return std::chrono::nanoseconds(value);
}

std::optional<std::chrono::minutes> TakeOffset(std::string_view* text) {
  if (TakeChar(text, 'Z', 'z')) return std::chrono::minutes(0);
  const bool west = !text->empty() && text->front() == '-';
  if (!west && (text->empty() || text->front() != '+')) return std::nullopt;
  text->remove_prefix(1);
  const auto hours = Take(text, 2, 0, 23);
  if (!hours || !TakeChar(text, ':', ':')) return std::nullopt;
  const auto minutes = Take(text, 2, 0, 59);
  if (!minutes) return std::nullopt;
  const std::chrono::minutes offset(*hours * 60 + *minutes);
  return west ? -offset : offset;
}

}  // namespace

std::string TimeText(WallTime time) {
  const auto ms = floor<std::chrono::milliseconds>(time);
  const auto day = floor<std::chrono::days>(ms);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(ms - day);
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

std::optional<WallTime> ParseTime(std::string_view text) {
  const auto year = Take(&text, 4, 1678, 2261);  // The range of nanoseconds since 1970 in 64 bits.
  if (!year || !TakeChar(&text, '-', '-')) return std::nullopt;
  const auto month = Take(&text, 2, 1, 12);
  if (!month || !TakeChar(&text, '-', '-')) return std::nullopt;
  const auto day = Take(&text, 2, 1, 31);
  if (!day || !TakeChar(&text, 'T', 't')) return std::nullopt;
  const auto hour = Take(&text, 2, 0, 23);
  if (!hour || !TakeChar(&text, ':', ':')) return std::nullopt;
  const auto minute = Take(&text, 2, 0, 59);
  if (!minute || !TakeChar(&text, ':', ':')) return std::nullopt;
  const auto second = Take(&text, 2, 0, 60);  // A leap second counts as the first second of the next minute.
  if (!second) return std::nullopt;
  const auto fraction = TakeFraction(&text);
  if (!fraction) return std::nullopt;
  const auto offset = TakeOffset(&text);
  if (!offset || !text.empty()) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  const auto time = std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
                    std::chrono::seconds(*second) + *fraction - *offset;
  return std::chrono::time_point_cast<WallTime::duration>(time);
}

}  // namespace nd::service
