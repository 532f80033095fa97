// SPDX-License-Identifier: Apache-2.0
// Synchronisation of the data path: a spin lock that yields, detection of forked children, and a process-wide
// barrier.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace nd::provider::soft {

inline void CpuRelax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Usually held for tens of nanoseconds, so a waiter spins; sched_yield gives the core to a preempted holder.
// Satisfies Lockable.
class SpinLock {
 public:
  void lock() {
    for (unsigned spins = 0; !try_lock(); ++spins) {
      while (locked_.load(std::memory_order_relaxed)) {
        CpuRelax();
        if (++spins > 200) sched_yield();
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

// Incremented in every forked child. An object stores the value at its creation; if it differs, the caller is
// in a child and must not use the transports of the parent.
namespace internal {
extern std::atomic<std::uint32_t> fork_generation;
}
inline std::uint32_t ForkGeneration() {
  return internal::fork_generation.load(std::memory_order_relaxed);
}

// Descriptors that a forked child must close at once, or it would keep the parent's connections alive.
// `fd` stays owned by the caller. Safe from any thread.
void CloseInForkedChild(int fd);
void ForgetInForkedChild(int fd);

// Makes every store of every registered process of this host, made before now, visible here: the slow half
// of a fence whose fast half is only a compiler barrier. Returns false when the kernel lacks support.
bool GlobalBarrier();
// Called once per process; returns false when the kernel lacks support.
bool RegisterGlobalBarrier();

}  // namespace nd::provider::soft
