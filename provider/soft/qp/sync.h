// SPDX-License-Identifier: Apache-2.0
// The few synchronisation tools of the data path: a spin lock that yields, and "are we a forked child?".
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

// Held for tens of nanoseconds in the common case, so waiting spins; a holder that lost its core gets it
// back by sched_yield. Satisfies Lockable.
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

// Grows by one in every forked child. An object remembers the value of its birth; when it differs, the
// caller is a child that must not touch the parent's transports.
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
// of a fence whose fast half is only a compiler barrier. False when the kernel cannot.
bool GlobalBarrier();
// Once per process; false when the kernel cannot.
bool RegisterGlobalBarrier();

}  // namespace nd::provider::soft
