// SPDX-License-Identifier: Apache-2.0
// Whether the transports themselves wake an application that sleeps on the descriptor of its completion
// queue.
//
// Otherwise the progress thread is woken, moves the data and makes the descriptor readable when a completion
// has come: two wake-ups in a row, 1.6 times the time of one across two cores and 8 times on one. The
// transports wake the application directly, but also for work that completes nothing, such as a Read of the
// peer. So the earlier notifications decide: directly after some that brought completions, and not for a
// growing number of notifications after one that brought none.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nd::provider::soft {

// The caller has a lock.
class DirectPolicy {
 public:
  static constexpr std::uint32_t kFirst = 8, kMost = 1u << 16;

  bool direct() const { return useful_ >= needed_; }
  // The notification came with a completion.
  void Useful() {
    if (useful_ < kMost) ++useful_;
    // Long enough to trust it as at first.
    if (useful_ >= 2 * needed_) needed_ = kFirst;
  }
  // The descriptor was readable for nothing.
  void InVain() {
    useful_ = 0;
    needed_ = std::min(needed_ * 2, kMost / 2);
  }

 private:
  std::uint32_t useful_ = 0, needed_ = kFirst;  // Notifications in a row.
};

}  // namespace nd::provider::soft
