// SPDX-License-Identifier: Apache-2.0
// Synchronisation of the data path: a spin lock that yields, and barriers for other threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/clock.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* key);
extern "C" void __tsan_release(void* key);
#endif

namespace nd::provider::soft {

// ThreadSanitizer does not know that two mappings are the same memory, as those of a test that has both ends
// of a connection. Publish() and See() tell it the order that a word of the memory makes; `number` is that of
// its writer's queue pair. Other builds do nothing, and do not read `number`.
struct OrderThroughMappings {
#if defined(__SANITIZE_THREAD__)
  static void Publish(std::uint32_t number) {
    __tsan_release(&keys[number % kKeys]);
  }
  static void See(std::uint32_t number) {
    __tsan_acquire(&keys[number % kKeys]);
  }

 private:
  static constexpr std::uint32_t kKeys = 256;
  static inline char keys[kKeys];
#else
  static void Publish(std::uint32_t) {}
  static void See(const std::atomic<std::uint32_t>&) {}
#endif
};

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Usually held for tens of nanoseconds, so a waiter spins; yielding gives the core to a preempted holder.
// Satisfies Lockable.
class SpinLock {
 public:
  void lock() {
    for (unsigned spins = 0; !try_lock(); ++spins) {
      while (locked_.load(std::memory_order_relaxed)) {
        CpuRelax();
        if (++spins > 200) std::this_thread::yield();
      }
    }
  }
  bool try_lock() {
    return !locked_.load(std::memory_order_relaxed) && !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

using SpinGuard = std::lock_guard<SpinLock>;

// Makes every store of every thread of this process, made before now, visible here: the slow half of a fence
// whose fast half is only a compiler barrier. Returns false when the kernel lacks support.
bool ProcessBarrier();
// The same for all processes of this host that are registered, but it may leave out a processor: when a
// thread of a process ends, Linux counts its processor as one without registered threads until that runs
// another process, although other threads of the same process run there. So the caller looks a second time,
// after kStoresSettle.
bool GlobalBarrier();
// Processors keep a store back for less than a microsecond.
inline constexpr Duration kStoresSettle = std::chrono::milliseconds(1);
// Registers this process for either barrier, once. Returns false when the kernel lacks support.
bool RegisterProcessBarrier();
bool RegisterGlobalBarrier();

}  // namespace nd::provider::soft
