// SPDX-License-Identifier: Apache-2.0
// Only numbers and names of our own are printed, so the JSON needs no escaping.
#include "tests/bench/result.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace nd::perf {
namespace {

template <typename... Args>
std::string Print(const char* format, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), format, args...);
  return buffer;
}

}  // namespace

double Percentile(std::vector<double> values, double percent) {
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(values.size())));
  const std::size_t index = std::min(rank == 0 ? 0 : rank - 1, values.size() - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index), values.end());
  return values[index];
}

Numbers Summarize(const Options& options, const Sample& sample) {
  Numbers numbers;
  if (options.metric == Metric::kLatency) {
    if (sample.latencies_us.empty()) return numbers;
    numbers.p50_us = Percentile(sample.latencies_us, 50);
    numbers.p99_us = Percentile(sample.latencies_us, 99);
    return numbers;
  }
  if (sample.seconds <= 0) return numbers;
  numbers.per_s = static_cast<double>(sample.operations) / sample.seconds;
  if (options.metric == Metric::kBandwidth) numbers.gbytes_per_s = *numbers.per_s * options.size / 1e9;
  return numbers;
}

std::string ToJson(const Options& options, const Numbers& numbers) {
  std::string out = Print(
      "{\"op\":\"%s\",\"metric\":\"%s\",\"transport\":\"%s\",\"size\":%u,\"iterations\":%u,\"window\":%u,"
      "\"wait\":\"%s\",\"crc\":%s",
      Name(options.op), Name(options.metric), options.Medium().c_str(), options.size, options.iterations,
      options.window, Name(options.waiting),
      options.transport == Transport::kIwarp && options.crc ? "true" : "false");
  const auto add = [&out](const char* name, const std::optional<double>& value) {
    if (value) out += Print(",\"%s\":%.6g", name, *value);
  };
  add("p50_us", numbers.p50_us);
  add("p99_us", numbers.p99_us);
  add("per_s", numbers.per_s);
  add("gbytes_per_s", numbers.gbytes_per_s);
  return out + "}\n";
}

std::string ToLine(const Options& options, const Numbers& numbers) {
  std::string out = Print("%s %s, %u bytes, %u times", options.Medium().c_str(), Name(options.op),
                          options.size, options.iterations);
  if (options.window > 1) out += Print(", %u at once", options.window);
  out += ":";
  if (numbers.p50_us) out += Print(" %.2f us (median), %.2f us (99%%)", *numbers.p50_us, *numbers.p99_us);
  if (numbers.per_s) out += Print(" %.0f per second", *numbers.per_s);
  if (numbers.gbytes_per_s) out += Print(", %.3f GB/s", *numbers.gbytes_per_s);
  return out + "\n";
}

std::string Encode(const Numbers& numbers) {
  const auto text = [](const std::optional<double>& value) {
    return value ? Print(" %.17g", *value) : std::string(" -1");
  };
  return "result" + text(numbers.p50_us) + text(numbers.p99_us) + text(numbers.per_s) +
         text(numbers.gbytes_per_s);
}

std::optional<Numbers> Decode(const std::string& text) {
  double values[4];
  if (std::sscanf(text.c_str(), "result %lf %lf %lf %lf", &values[0], &values[1], &values[2], &values[3]) !=
      4) {
    return std::nullopt;
  }
  const auto some = [](double value) { return value < 0 ? std::nullopt : std::optional(value); };
  return Numbers{some(values[0]), some(values[1]), some(values[2]), some(values[3])};
}

}  // namespace nd::perf
