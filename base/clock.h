// SPDX-License-Identifier: Apache-2.0
// Time as the broker sees it: monotonic nanoseconds from a clock that tests can crank by hand.
#pragma once

#include <chrono>

namespace nd {

using Duration = std::chrono::nanoseconds;
// Since an arbitrary origin; only differences mean anything.
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
};

// Runs with the system clock and jumps ahead on demand: hours pass in a test without waiting.
class SkippingClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now() + skipped_; }
  void Skip(Duration by) { skipped_ += by; }

 private:
  Duration skipped_{};
};

}  // namespace nd
