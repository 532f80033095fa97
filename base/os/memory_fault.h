// SPDX-License-Identifier: Apache-2.0
// Registered memory that the application unmapped. A device has pinned such memory; a processor faults. A
// process that handles the fault maps empty pages in the place of the memory and records it here, and the
// code that accessed the memory asks before it uses the bytes. A process that handles no faults never records
// one.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace nd::os {

namespace internal {
inline std::atomic<std::uint32_t> memory_faults{0};
// Threads that have not asked since their fault. A thread is known by the address of its errno.
inline std::array<std::atomic<const int*>, 64> faulted_threads{};
}  // namespace internal

// Counts; cheap enough for the data path.
inline std::uint32_t MemoryFaults() {
  return internal::memory_faults.load(std::memory_order_relaxed);
}

// This thread faulted. For signal handlers. False: no place to record it, so the fault must not be handled.
inline bool RecordMemoryFault() {
  const int* const self = &errno;
  for (auto& thread : internal::faulted_threads) {
    if (thread.load(std::memory_order_relaxed) == self) return true;
  }
  for (auto& thread : internal::faulted_threads) {
    const int* free = nullptr;
    if (!thread.compare_exchange_strong(free, self)) continue;
    internal::memory_faults.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

// True when this thread faulted since it asked last.
inline bool TakeMemoryFault() {
  const int* const self = &errno;
  for (auto& thread : internal::faulted_threads) {
    if (thread.load(std::memory_order_relaxed) != self) continue;
    thread.store(nullptr, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace nd::os
