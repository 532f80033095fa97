// SPDX-License-Identifier: Apache-2.0
// std::counting_semaphore loses wake-ups here: the library of GCC 12 compares the value before it takes the
// mutex of its condition variable, where the system has no wait on an address that it knows.
#include "base/os/semaphore.h"

#include <windows.h>

#include <algorithm>
#include <chrono>
#include <new>

namespace nd::os {
namespace {

struct Units {
  SRWLOCK lock = SRWLOCK_INIT;
  CONDITION_VARIABLE more = CONDITION_VARIABLE_INIT;
  long count = 0;
};

Units& In(std::byte* memory) {
  return *std::launder(reinterpret_cast<Units*>(memory));
}

class Locked {
 public:
  explicit Locked(Units& units) : units_(units) { ::AcquireSRWLockExclusive(&units_.lock); }
  ~Locked() { ::ReleaseSRWLockExclusive(&units_.lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Units& units_;
};

void Sleep(Units& units, DWORD milliseconds) {
  ::SleepConditionVariableSRW(&units.more, &units.lock, milliseconds, 0);
}

}  // namespace

Semaphore::Semaphore() {
  static_assert(sizeof(Units) <= sizeof(memory_));
  new (memory_) Units;
}

Semaphore::~Semaphore() = default;

void Semaphore::Post() {
  Units& units = In(memory_);
  const Locked locked(units);
  ++units.count;
  ::WakeConditionVariable(&units.more);
}

void Semaphore::Wait() {
  Units& units = In(memory_);
  const Locked locked(units);
  while (units.count == 0) Sleep(units, INFINITE);
  --units.count;
}

bool Semaphore::WaitUntil(Time deadline) {
  Units& units = In(memory_);
  const Locked locked(units);
  while (units.count == 0) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return false;
    constexpr std::chrono::hours kLongest{1};
    const auto bounded = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, kLongest));
    Sleep(units, static_cast<DWORD>(bounded.count()));
  }
  --units.count;
  return true;
}

}  // namespace nd::os
