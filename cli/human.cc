// SPDX-License-Identifier: Apache-2.0
// Numbers for display. Machine formats do not use this file.
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/utc_time.h"
#include "cli/format.h"

namespace nd::cli {
namespace {

template <typename... Args>
std::string Print(const char* format, Args... args) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), format, args...);
  return buffer;
}

}  // namespace

std::string HumanBytes(double bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? Print("%.0f B", bytes) : Print("%.1f %s", bytes, kUnits[unit]);
}

std::string CompactBytes(double bytes) {
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit < 6; ++unit) bytes /= 1024;
  if (unit == 0) return Print("%.0f", bytes);
  return bytes >= 99.95 ? Print("%.0f%c", bytes, "BKMGTPE"[unit]) : Print("%.1f%c", bytes, "BKMGTPE"[unit]);
}

std::string CompactCount(double count) {
  if (count < 1000 && count != std::floor(count)) return Print("%.1f", count);
  if (count < 99999.5) return Print("%.0f", count);
  std::size_t unit = 0;
  for (; count >= 999.5 && unit < 6; ++unit) count /= 1000;
  return count >= 99.95 ? Print("%.0f%c", count, " KMGTPE"[unit]) : Print("%.1f%c", count, " KMGTPE"[unit]);
}

std::string HumanSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 10) return Print("%.1fs", seconds);
  if (seconds < 60) return Print("%.0fs", std::floor(seconds));
  const auto whole = static_cast<long long>(seconds);
  if (whole < 3600) return Print("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86400) return Print("%lldh%02lldm", whole / 3600, whole % 3600 / 60);
  return Print("%lldd%lldh", whole / 86400, whole % 86400 / 3600);
}

std::string HumanShort(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 1e-3) return Print("%.1f us", seconds * 1e6);
  if (seconds < 1) return Print("%.1f ms", seconds * 1e3);
  return seconds < 100 ? Print("%.2f s", seconds) : HumanSeconds(seconds);
}

std::string TimeAgo(double seconds) {
  const std::time_t when =
      std::time(nullptr) - static_cast<std::time_t>(std::isfinite(seconds) ? seconds : 0);
  const std::tm parts = UtcParts(when);
  char buffer[32];
  std::strftime(buffer, sizeof(buffer), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return buffer;
}

}  // namespace nd::cli
