// SPDX-License-Identifier: Apache-2.0
// The results of one run, as a line of text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace nd::perf {

struct Numbers {
  std::optional<double> p50_us, p99_us, p99_9_us, p99_99_us, per_s, gbytes_per_s;
  // How many latencies are at most the first number, in us, and above that of the entry before.
  std::vector<std::pair<double, std::uint64_t>> histogram;
};

// The value below which `percent` of `values` lie (nearest rank). `values` must not be empty.
double Percentile(std::vector<double> values, double percent);
// Ranges whose limits are a factor of the square root of two apart; empty ranges are left out.
std::vector<std::pair<double, std::uint64_t>> Histogram(const std::vector<double>& values);
Numbers Summarize(const Options& options, const Sample& sample);

std::string ToJson(const Options& options, const Numbers& numbers);
std::string ToLine(const Options& options, const Numbers& numbers);

// Encodes the results for the process that prints them.
std::string Encode(const Numbers& numbers);
std::optional<Numbers> Decode(const std::string& text);

}  // namespace nd::perf
