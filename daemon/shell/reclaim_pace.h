// SPDX-License-Identifier: Apache-2.0
// How many objects of ended sessions one step of the core reclaims. The loop serves nothing else during a
// step, so the number follows the measured time of the last one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace nd::service {

class ReclaimPace {
 public:
  // A step should take this long. Half of the bound of a millisecond, because objects are not equally costly.
  static constexpr Duration kTarget = std::chrono::microseconds(500);
  static constexpr std::uint32_t kSmallest = 1, kLargest = 64;

  std::uint32_t slice() const { return slice_; }

  // The last step reclaimed slice() objects, or fewer when a session had no more, and took this long.
  void Took(Duration time) {
    const std::int64_t took = std::max<std::int64_t>(time.count(), 1);
    const auto fitting = static_cast<std::uint64_t>(slice_ * kTarget.count() / took);
    // One slow step, for example because the thread was preempted, shrinks the slice fourfold at most; one
    // quick step at most doubles it.
    const auto next = std::clamp<std::uint64_t>(fitting, slice_ / 4, std::uint64_t{slice_} * 2);
    slice_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(next, kSmallest, kLargest));
  }

 private:
  std::uint32_t slice_ = 16;
};

}  // namespace nd::service
