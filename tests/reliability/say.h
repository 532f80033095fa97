// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder share: time, percentiles, and rows of the table that run.sh prints.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "nd/status.h"

namespace nd::reliability {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
// The monotonic clock, which is the same in every process of the host.
inline double NowMs() {
  return Milliseconds(Clock::now().time_since_epoch());
}

// The smallest value that at least `part` of them do not exceed; -1 without values. Of a few values, p99 is
// the largest.
inline double Percentile(std::vector<double> values, double part) {
  if (values.empty()) return -1;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

__attribute__((format(printf, 1, 2))) inline std::string Format(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// A row of the table: its number, its verdict and the measured values. kUnclear: the run could not show
// whether the target is met.
enum class Verdict { kMet, kMissed, kUnclear };
inline void Row(int number, Verdict verdict, const std::string& measured) {
  const char* name = verdict == Verdict::kMet ? "met" : verdict == Verdict::kMissed ? "missed" : "unclear";
  std::printf("row %d|%s|%s\n", number, name, measured.c_str());
  std::fflush(stdout);
}
inline void Row(int number, bool met, const std::string& measured) {
  Row(number, met ? Verdict::kMet : Verdict::kMissed, measured);
}

[[noreturn]] inline void Die(const std::string& text) {
  std::fprintf(stderr, "nd_reliability: %s\n", text.c_str());
  std::exit(2);
}
inline void Must(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}
template <typename T>
T Must(Result<T> result) {
  Must(result.status());
  return std::move(result).value();
}

}  // namespace nd::reliability
