// SPDX-License-Identifier: Apache-2.0
// Parses units and times of options and filters, so that all of them accept the same forms.
#include "cli/quantity.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/utc_time.h"
#include "cli/nearest.h"

namespace nd::cli {
namespace {

struct Factor {
  const char* name;
  Unit unit;
  double factor;
};

constexpr Factor kFactors[] = {{"s", Unit::kSeconds, 1},          {"ms", Unit::kSeconds, 1e-3},
                               {"us", Unit::kSeconds, 1e-6},      {"ns", Unit::kSeconds, 1e-9},
                               {"m", Unit::kSeconds, 60},         {"min", Unit::kSeconds, 60},
                               {"h", Unit::kSeconds, 3600},       {"d", Unit::kSeconds, 86400},
                               {"w", Unit::kSeconds, 604800},     {"B", Unit::kBytes, 1},
                               {"KiB", Unit::kBytes, 1024},       {"MiB", Unit::kBytes, 1048576},
                               {"GiB", Unit::kBytes, 1073741824}, {"TiB", Unit::kBytes, 1099511627776.0},
                               {"KB", Unit::kBytes, 1e3},         {"MB", Unit::kBytes, 1e6},
                               {"GB", Unit::kBytes, 1e9},         {"TB", Unit::kBytes, 1e12}};

// Reads exactly `digits` digits at the front of `text`.
std::optional<int> Take(std::string_view* text, std::size_t digits) {
  int value = 0;
  if (text->size() < digits) return std::nullopt;
  const auto end = std::from_chars(text->data(), text->data() + digits, value);
  if (end.ec != std::errc() || end.ptr != text->data() + digits || (*text)[0] == '-') return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

bool Skip(std::string_view* text, std::string_view any_of) {
  if (text->empty() || any_of.find((*text)[0]) == std::string_view::npos) return false;
  text->remove_prefix(1);
  return true;
}

// RFC 3339; the fraction is kept as text.
std::optional<std::time_t> ParseRfc3339(std::string_view text, std::string* fraction) {
  const auto year = Take(&text, 4);
  if (!year || !Skip(&text, "-")) return std::nullopt;
  const auto month = Take(&text, 2);
  if (!month || !Skip(&text, "-")) return std::nullopt;
  const auto day = Take(&text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;  // 31 February.
  const std::time_t midnight =
      std::chrono::sys_seconds(std::chrono::sys_days(date)).time_since_epoch().count();
  if (text.empty()) return midnight;
  if (!Skip(&text, "Tt ")) return std::nullopt;
  const auto hour = Take(&text, 2);
  if (!hour || !Skip(&text, ":")) return std::nullopt;
  const auto minute = Take(&text, 2);
  if (!minute || !Skip(&text, ":")) return std::nullopt;
  const auto second = Take(&text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  if (Skip(&text, ".")) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) return std::nullopt;
    *fraction = "." + std::string(text.substr(0, std::min<std::size_t>(digits, 9)));
    text.remove_prefix(digits);
  }
  const std::time_t local = midnight + *hour * 3600 + *minute * 60 + *second;
  if (Skip(&text, "Zz")) return text.empty() ? std::optional(local) : std::nullopt;
  const bool east = !text.empty() && text[0] == '+';
  if (!Skip(&text, "+-")) return std::nullopt;
  const auto hours = Take(&text, 2);
  if (!hours || !Skip(&text, ":")) return std::nullopt;
  const auto minutes = Take(&text, 2);
  if (!minutes || !text.empty() || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::time_t offset = *hours * 3600 + *minutes * 60;
  return east ? local - offset : local + offset;
}

std::string Utc(std::time_t when, const std::string& fraction) {
  const std::tm parts = UtcParts(when);
  char buffer[64];
  std::strftime(buffer, sizeof(buffer), "%Y-%m-%dT%H:%M:%S", &parts);
  return buffer + fraction + "Z";
}

}  // namespace

std::optional<double> SecondsOf(const std::string& time) {
  std::string fraction;
  const auto whole = ParseRfc3339(time, &fraction);
  if (!whole) return std::nullopt;
  return static_cast<double>(*whole) + std::strtod(fraction.c_str(), nullptr);
}

Failure ParseQuantity(const std::string& text, Unit unit, double* value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *value);
  const char* example = unit == Unit::kBytes ? "64KiB" : unit == Unit::kSeconds ? "10s" : "10s or 64KiB";
  if (end.ec != std::errc() || !std::isfinite(*value) || *value < 0) {
    return Error{
        Exit::kUsage, "'" + text + "' is not a quantity", std::string("write for example ") + example, {}};
  }
  std::string_view name(end.ptr, static_cast<std::size_t>(text.data() + text.size() - end.ptr));
  while (!name.empty() && name[0] == ' ') name.remove_prefix(1);
  if (name.empty()) return std::nullopt;
  std::vector<std::string> known;
  for (const Factor& factor : kFactors) {
    if (unit != Unit::kAny && unit != factor.unit) continue;
    if (name == factor.name) {
      *value *= factor.factor;
      return std::nullopt;
    }
    known.emplace_back(factor.name);
  }
  return Error{
      Exit::kUsage, "unknown unit '" + std::string(name) + "' in '" + text + "'", Suggest(name, known), {}};
}

Failure ParseTime(const std::string& text, std::time_t now, std::string* utc) {
  std::string fraction;
  if (text == "now") {
    *utc = Utc(now, fraction);
    return std::nullopt;
  }
  if (const auto when = ParseRfc3339(text, &fraction)) {
    *utc = Utc(*when, fraction);
    return std::nullopt;
  }
  double ago = 0;
  const bool relative = !text.empty() && text.find_first_of("-:T") == std::string::npos;
  if (!relative) {
    return Error{Exit::kUsage,
                 "'" + text + "' is not a time",
                 "write how long ago (10m, 2h, 3d) or a time such as 2026-11-21T10:00:00Z",
                 {}};
  }
  if (Failure failure = ParseQuantity(text, Unit::kSeconds, &ago)) return failure;
  if (ago > 3e9) return Error{Exit::kUsage, "'" + text + "' is too long ago", "write less than 95 years", {}};
  *utc = Utc(now - static_cast<std::time_t>(ago), fraction);
  return std::nullopt;
}

}  // namespace nd::cli
