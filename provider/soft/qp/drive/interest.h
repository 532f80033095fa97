// SPDX-License-Identifier: Apache-2.0
// What a transport needs watched, reported in one piece.
#pragma once

#include <poll.h>

#include <algorithm>

#include "base/clock.h"

namespace nd::provider::soft {

struct Interest {
  int fd = -1;            // -1: nothing is watched. There is no connection, or it is over.
  bool read = false;      // Wake when something can be read,
  bool write = false;     // when there is room,
  bool hang_up = false;   // when the peer ends its stream. Hang-ups of both directions wake in any case.
  bool runnable = false;  // Nobody may sleep: the next round moves something, or arms what was used up.
  Time deadline = Time::max();  // A round is due then even if nothing happens.

  // The bits of poll(), which epoll shares.
  short events() const {
    return static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0) | (hang_up ? POLLRDHUP : 0));
  }
};

// Whoever sleeps with `watched` wakes in time for everything in `now`.
constexpr bool Covers(const Interest& watched, const Interest& now) {
  return !now.runnable && now.deadline >= watched.deadline && (!now.read || watched.read) &&
         (!now.write || watched.write) && (!now.hang_up || watched.hang_up);
}

}  // namespace nd::provider::soft
