// SPDX-License-Identifier: Apache-2.0
// A lock that costs a thread that takes it again and again two plain stores: no instruction that locks the
// bus and no fence, so that nothing waits for the stores of the message before.
//
// While nobody else takes it, the lock belongs to one thread, its owner. The owner says that it is inside,
// looks whether it still owns the lock, and is inside. Any other thread takes the shared lock, ends the
// ownership, makes every thread of the process pass a barrier (ProcessBarrier, one system call) and then
// waits until the owner is not inside. Why both cannot be inside: the barrier falls between two instructions
// of the owner. When it falls before the look, the look sees the end of the ownership, and the owner takes
// the shared lock like all others. When it falls behind the look, the owner has said before that it is
// inside, and the other thread sees it. biased_lock_test.cc runs all interleavings of this.
//
// A thread that stops between its first look and its word still says later that it is inside, and takes that
// back. It must not take back the word of a later owner. So each word belongs to one thread for the life of
// the lock; there are two, and a third thread never becomes the owner.
//
// The barrier costs as much as some hundred locks, so only a thread that took the lock many times in a row
// becomes the owner, and each end of an ownership that did not last doubles their number: a lock that
// two threads use in turn is soon a spin lock. Without the barrier (another system, an old kernel) it is one
// always.
//
// Any thread; not recursive. Satisfies Lockable. A holder in a process that forks: as for any lock, the child
// does not use it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "base/clock.h"
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {

// Differs between threads that run at the same time. A multiple of 16, never 0.
inline std::uintptr_t ThisThread() {
#if defined(__x86_64__) && defined(__linux__)
  std::uintptr_t self;
  asm("mov %%fs:0, %0" : "=r"(self));  // The thread's control block begins with its address.
  return self;
#else
  alignas(16) static thread_local char mark;
  return reinterpret_cast<std::uintptr_t>(&mark);
#endif
}

class BiasedLock {
 public:
  // The locks in a row that make a thread the owner, at first and at most.
  static constexpr std::uint32_t kFirstStreak = 128, kLongestStreak = 1u << 30;
  // An ownership of this length was worth its end.
  static constexpr Duration kLasted = std::chrono::milliseconds(50);

  void lock() {
    if (!LockAsOwner()) [[unlikely]]
      LockShared();
  }
  bool try_lock() { return LockAsOwner() || TryLockShared(); }
  void unlock() {
    if (held_ == kShared) [[unlikely]]
      return UnlockShared();
    inside_[held_].store(false, std::memory_order_release);
  }
  // For tests. The answer of the owner itself stays right.
  bool OwnedByThisThread() const { return OwnedBy(owner_.load(std::memory_order_relaxed), ThisThread()); }

 private:
  static constexpr std::uint8_t kWords = 2, kShared = kWords;
  static constexpr std::uint32_t kNever = UINT32_MAX;

  // `owner`: a thread, which is a multiple of kWords, and the number of its word.
  static bool OwnedBy(std::uintptr_t owner, std::uintptr_t thread) { return (owner ^ thread) < kWords; }
  bool LockAsOwner() {
    const std::uintptr_t owner = owner_.load(std::memory_order_relaxed);
    if (owner == 0 || !OwnedBy(owner, ThisThread())) return false;
    const auto word = static_cast<std::uint8_t>(owner % kWords);
    // An earlier thread of the same address may have been the owner: its end is ordered before this.
    static_cast<void>(inside_[word].load(std::memory_order_acquire));
    inside_[word].store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // The other half is ProcessBarrier().
    if (owner_.load(std::memory_order_relaxed) == owner) [[likely]] {
      held_ = word;
      return true;
    }
    inside_[word].store(false, std::memory_order_release);
    return false;
  }
  void LockShared();
  bool TryLockShared();
  void UnlockShared();
  // The next four: under taken_. Nobody is the owner after this.
  void EndOwnership();
  bool OwnerInside() const {
    return inside_[0].load(std::memory_order_acquire) || inside_[1].load(std::memory_order_acquire);
  }
  void Enter();
  void BecomeOwner(std::uintptr_t self);

  std::atomic<std::uintptr_t> owner_{0};  // Written under taken_.
  // The owner holds the lock, or looks whether it still owns it.
  std::atomic<bool> inside_[kWords]{};
  std::uint8_t held_ = 0;  // The word of the holder, or kShared. Written under the lock.
  SpinLock taken_;         // All others.
  // Under taken_: who took it, how often in a row, the threads of the words, and the begin of the ownership.
  std::uint32_t streak_ = 0, needed_ = kFirstStreak;
  std::uintptr_t last_ = 0, threads_[kWords]{};
  Time since_{};
};

using BiasedGuard = std::lock_guard<BiasedLock>;

}  // namespace nd::provider::soft
