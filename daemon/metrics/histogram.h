// SPDX-License-Identifier: Apache-2.0
// Counts durations in eleven buckets from ten microseconds to ten seconds, a factor of four apart.
//
// One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace nd::ops {

struct Histogram {
  static constexpr std::array<double, 11> kBounds = {1e-5, 4e-5, 1.6e-4, 7e-4, 2.5e-3, 1e-2,
                                                     4e-2, 0.16, 0.64,   2.5,  10};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // The last one counts longer durations.
  double sum = 0;

  void Add(Duration duration) {
    const double seconds = std::max(0.0, std::chrono::duration<double>(duration).count());
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
    ++counts[bucket];
    sum += seconds;
  }
  std::uint64_t count() const {
    std::uint64_t all = 0;
    for (const std::uint64_t n : counts) all += n;
    return all;
  }
};

}  // namespace nd::ops
