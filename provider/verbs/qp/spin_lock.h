// SPDX-License-Identifier: Apache-2.0
// A lock for sections of tens of nanoseconds. A waiter spins briefly, then yields the core.
#pragma once

#include <sched.h>

#include <atomic>

namespace nd::provider::verbs {

class SpinLock {
 public:
  void lock() {
    for (unsigned spins = 0; !try_lock(); ++spins) {
      if (spins > 200) sched_yield();
    }
  }
  bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) && !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace nd::provider::verbs
