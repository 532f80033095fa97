// SPDX-License-Identifier: Apache-2.0
// Polls of a program while connections by number are being made. Threads of this library make them, and a
// program that polls on the only processor that it may use keeps that from them, at each step until its time
// slice ends: some milliseconds. An empty poll therefore gives way. A peer that is late, or never comes,
// slows the polls for a moment only.
//
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace nd::verbs_lib {

// A connection is being made from the first call to the second.
void BeginConnecting();
void EndConnecting();

namespace internal {
extern std::atomic<std::int64_t> give_way_until;  // On the steady clock, in ns; 0: nothing is being made.
void GiveWay();
}  // namespace internal

// Called by a poll that found nothing.
inline void GiveWayToConnecting() {
  if (internal::give_way_until.load(std::memory_order_relaxed) != 0) [[unlikely]]
    internal::GiveWay();
}

}  // namespace nd::verbs_lib
