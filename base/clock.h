// SPDX-License-Identifier: Apache-2.0
// The time of the broker: monotonic nanoseconds from a clock that tests can advance.
#pragma once

#include <chrono>

namespace nd {

using Duration = std::chrono::nanoseconds;
// Time since an arbitrary origin; only differences are meaningful.
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

// Follows the system clock and can be advanced, so that a test skips hours without waiting.
class SkippingClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now() + skipped_; }
  void Skip(Duration by) { skipped_ += by; }

 private:
  Duration skipped_{};
};

}  // namespace nd
