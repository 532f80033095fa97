// SPDX-License-Identifier: Apache-2.0
// How long a thread in Wait polls before it sleeps.
//
// Polling pays when the peer runs on another core and answers before a wake-up would. It never pays when the
// peer shares the core of this thread, because the peer runs only after this thread sleeps. No system call
// tells which is the case, so the outcome of earlier waits decides: each fruitless one halves the time, a
// fruitful one restores it, and now and then a wait polls longer to notice a change. It polls for longer than
// the wake-up of a peer takes, so that two ends on two cores that both sleep after each message find out.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace nd::provider::soft {

// Any thread. A report that is lost in a race costs some microseconds.
class SpinPolicy {
 public:
  static constexpr Duration kWhole = std::chrono::microseconds(50);
  // A try that does not pay adds 200 ns to each wait on average: on one core, where it never pays, a tenth of
  // a wait.
  static constexpr Duration kTry = std::chrono::microseconds(200);
  static constexpr std::uint32_t kWaitsBetweenTries = 1024;

  // The polling time of the wait that begins now.
  Duration Next() {
    const std::uint32_t fruitless = fruitless_.load(std::memory_order_relaxed);
    if (fruitless == 0) return kWhole;
    const std::uint32_t waits = waits_.load(std::memory_order_relaxed) + 1;
    waits_.store(waits, std::memory_order_relaxed);
    if (waits % kWaitsBetweenTries == 0) return kTry;
    return fruitless < kMostFruitless ? kWhole / (1 << fruitless) : Duration::zero();
  }

  // The completion came while the thread polled.
  void Paid() {
    if (fruitless_.load(std::memory_order_relaxed) != 0) fruitless_.store(0, std::memory_order_relaxed);
  }
  // The thread had to sleep.
  void DidNotPay() {
    const std::uint32_t fruitless = fruitless_.load(std::memory_order_relaxed);
    fruitless_.store(std::min(fruitless + 1, kMostFruitless), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kMostFruitless = 8;  // Less than 200 ns is not even a few polls.

  std::atomic<std::uint32_t> fruitless_{0};  // Waits in a row that polled and had to sleep.
  std::atomic<std::uint32_t> waits_{0};      // Since polling stopped to pay.
};

}  // namespace nd::provider::soft
