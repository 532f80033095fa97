// SPDX-License-Identifier: Apache-2.0
// The numbers that one run found, as a line for people and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace nd::perf {

struct Numbers {
  std::optional<double> p50_us, p99_us, per_s, gbytes_per_s;
};

// The value below which `percent` of `values` lie (nearest rank). `values` must not be empty.
double Percentile(std::vector<double> values, double percent);
Numbers Summarize(const Options& options, const Sample& sample);

std::string ToJson(const Options& options, const Numbers& numbers);
std::string ToLine(const Options& options, const Numbers& numbers);

// From the process that measured to the one that prints.
std::string Encode(const Numbers& numbers);
std::optional<Numbers> Decode(const std::string& text);

}  // namespace nd::perf
