// SPDX-License-Identifier: Apache-2.0
// A counting semaphore. A thread that sleeps costs one system call at either end; at a condition variable it
// costs a third one, for the mutex. Any thread.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace nd::os {

class Semaphore {
 public:
  Semaphore();
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Adds one unit. The call must have returned before the destructor is called.
  void Post();
  // Takes one unit, and waits for it.
  void Wait();
  // Returns false when there was none until `deadline`.
  bool WaitUntil(Time deadline);

 private:
  alignas(std::max_align_t) std::byte memory_[32];  // The semaphore of the system.
};

}  // namespace nd::os
