// SPDX-License-Identifier: Apache-2.0
// Only numbers and names of our own are printed, so the JSON needs no escaping.
#include "tests/bench/result.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

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

std::vector<std::pair<double, std::uint64_t>> Histogram(const std::vector<double>& values) {
  std::map<int, std::uint64_t> counts;
  for (const double value : values) {
    ++counts[static_cast<int>(std::ceil(std::log2(std::max(value, 1e-3)) * 2))];
  }
  std::vector<std::pair<double, std::uint64_t>> histogram;
  for (const auto& [exponent, count] : counts) histogram.emplace_back(std::exp2(exponent / 2.0), count);
  return histogram;
}

Numbers Summarize(const Options& options, const Sample& sample) {
  Numbers numbers;
  if (options.metric == Metric::kLatency) {
    if (sample.latencies_us.empty()) return numbers;
    numbers.p50_us = Percentile(sample.latencies_us, 50);
    numbers.p99_us = Percentile(sample.latencies_us, 99);
    numbers.p99_9_us = Percentile(sample.latencies_us, 99.9);
    numbers.p99_99_us = Percentile(sample.latencies_us, 99.99);
    numbers.histogram = Histogram(sample.latencies_us);
    return numbers;
  }
  if (sample.seconds <= 0) return numbers;
  constexpr std::size_t kEnoughPeriods = 5;
  numbers.per_s = sample.window_rates.size() >= kEnoughPeriods
                      ? Percentile(sample.window_rates, 50)
                      : static_cast<double>(sample.operations) / sample.seconds;
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
  add("p99_9_us", numbers.p99_9_us);
  add("p99_99_us", numbers.p99_99_us);
  add("per_s", numbers.per_s);
  add("gbytes_per_s", numbers.gbytes_per_s);
  if (options.histogram) {
    const char* separator = ",\"histogram\":[";
    for (const auto& [limit, count] : numbers.histogram) {
      out += separator + Print("[%.6g,%llu]", limit, static_cast<unsigned long long>(count));
      separator = ",";
    }
    out += "]";
  }
  return out + "}\n";
}

std::string ToLine(const Options& options, const Numbers& numbers) {
  std::string out = Print("%s %s, %u bytes, %u times", options.Medium().c_str(), Name(options.op),
                          options.size, options.iterations);
  if (options.window > 1) out += Print(", %u at once", options.window);
  out += ":";
  if (numbers.p50_us) out += Print(" %.2f us (median), %.2f us (99%%)", *numbers.p50_us, *numbers.p99_us);
  if (numbers.p99_99_us) {
    out += Print(", %.2f us (99.9%%), %.2f us (99.99%%)", numbers.p99_9_us.value_or(0), *numbers.p99_99_us);
  }
  if (numbers.per_s) out += Print(" %.0f per second", *numbers.per_s);
  if (numbers.gbytes_per_s) out += Print(", %.3f GB/s", *numbers.gbytes_per_s);
  out += "\n";
  if (!options.histogram) return out;
  for (const auto& [limit, count] : numbers.histogram) {
    out += Print("  up to %10.3f us: %llu\n", limit, static_cast<unsigned long long>(count));
  }
  return out;
}

std::string Encode(const Numbers& numbers) {
  std::string out = "result";
  for (const auto& value : {numbers.p50_us, numbers.p99_us, numbers.p99_9_us, numbers.p99_99_us,
                            numbers.per_s, numbers.gbytes_per_s}) {
    out += value ? Print(" %.17g", *value) : std::string(" -1");
  }
  for (const auto& [limit, count] : numbers.histogram) {
    out += Print(" %.17g %llu", limit, static_cast<unsigned long long>(count));
  }
  return out;
}

std::optional<Numbers> Decode(const std::string& text) {
  std::istringstream in(text);
  std::string word;
  Numbers numbers;
  if (!(in >> word) || word != "result") return std::nullopt;
  for (auto* field : {&numbers.p50_us, &numbers.p99_us, &numbers.p99_9_us, &numbers.p99_99_us, &numbers.per_s,
                      &numbers.gbytes_per_s}) {
    double value = 0;
    if (!(in >> value)) return std::nullopt;
    if (value >= 0) *field = value;
  }
  for (std::pair<double, std::uint64_t> range; in >> range.first >> range.second;) {
    numbers.histogram.push_back(range);
  }
  return numbers;
}

}  // namespace nd::perf
