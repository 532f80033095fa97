// SPDX-License-Identifier: Apache-2.0
// What a transport needs watched, reported in one piece.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/os/readiness.h"

namespace nd::provider::soft {

struct Interest {
  int fd = -1;           // -1: nothing is watched. There is no connection, or it is over.
  bool read = false;     // Wake when something can be read,
  bool write = false;    // when there is room,
  bool hang_up = false;  // when the peer ends its stream. Hang-ups of both directions wake in any case.
  // Nobody may sleep: the next round moves data, or arms again what a wake-up used up.
  bool runnable = false;
  Time deadline = Time::max();  // A round is due then even if nothing happens.

  // Bits of readiness.h.
  std::uint32_t wanted() const {
    return (read ? os::kReadable : 0) | (write ? os::kWritable : 0) | (hang_up ? os::kPeerFinished : 0);
  }
};

// Returns true when a thread that sleeps with `watched` wakes in time for everything in `now`.
constexpr bool Covers(const Interest& watched, const Interest& now) {
  return !now.runnable && now.deadline >= watched.deadline && (!now.read || watched.read) &&
         (!now.write || watched.write) && (!now.hang_up || watched.hang_up);
}

}  // namespace nd::provider::soft
