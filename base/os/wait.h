// SPDX-License-Identifier: Apache-2.0
// Waits for a few descriptors without an event loop. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/os/readiness.h"

namespace nd::os {

struct Watched {
  int fd = -1;                       // Negative: this entry is never ready.
  std::uint32_t wanted = kReadable;  // Bits of readiness.h.
  std::uint32_t ready = 0;           // Of `wanted`, and kFailed and kHungUp unasked.
};

inline constexpr Duration kNoLimit{-1};

// Returns when an entry is ready or `timeout` has passed, with the number of ready entries; a negative
// timeout never passes. -1: a signal arrived (errno is EINTR) or the system refuses; every `ready` is 0 then.
int Wait(std::span<Watched> entries, Duration timeout);

}  // namespace nd::os
