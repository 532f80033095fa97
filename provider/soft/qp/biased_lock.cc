// SPDX-License-Identifier: Apache-2.0
// The way of the threads that do not own the lock.
#include "provider/soft/qp/biased_lock.h"

#include <chrono>
#include <thread>
#include <utility>

namespace nd::provider::soft {

void BiasedLock::EndOwnership() {
  if (owner_.load(std::memory_order_relaxed) == 0) return;
  owner_.store(0, std::memory_order_relaxed);
  const bool lasted = std::chrono::steady_clock::now() - since_ >= kLasted;
  needed_ = lasted ? std::max(needed_ / 2, kFirstStreak) : std::min(needed_ * 2, kLongestStreak);
  if (ProcessBarrier()) return;
  // The program has forbidden itself the system call meanwhile. Processors keep a store back for less than a
  // microsecond, and no thread becomes the owner again.
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  needed_ = kNever;
}

void BiasedLock::BecomeOwner(std::uintptr_t self) {
  for (std::uint8_t word = 0; word < kWords; ++word) {
    if (threads_[word] != 0 && threads_[word] != self) continue;
    threads_[word] = self;
    since_ = std::chrono::steady_clock::now();
    owner_.store(self + word, std::memory_order_relaxed);
    return;
  }
}

void BiasedLock::Enter() {
  held_ = kShared;
  const std::uintptr_t self = ThisThread();
  if (std::exchange(last_, self) != self) streak_ = 0;
  if (needed_ == kNever || ++streak_ < needed_) return;
  streak_ = 0;
  if (RegisterProcessBarrier()) {
    BecomeOwner(self);
  } else {
    needed_ = kNever;
  }
}

void BiasedLock::LockShared() {
  taken_.lock();
  EndOwnership();
  // Not only after the end of an ownership: a thread whose try_lock() failed has left an owner inside.
  for (unsigned spins = 0; OwnerInside(); ++spins) {
    CpuRelax();
    if (spins > 200) std::this_thread::yield();
  }
  Enter();
}

bool BiasedLock::TryLockShared() {
  if (!taken_.try_lock()) return false;
  EndOwnership();
  if (OwnerInside()) {
    taken_.unlock();
    return false;
  }
  Enter();
  return true;
}

void BiasedLock::UnlockShared() {
  taken_.unlock();
}

}  // namespace nd::provider::soft
