// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/give_way.h"

#include <sched.h>

#include <chrono>

namespace nd::verbs_lib {
namespace {

// Much longer than a connection takes whose two ends are there, also on a busy machine.
constexpr auto kMoment = std::chrono::seconds(1);

std::atomic<int> connecting{0};

std::int64_t InNanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

}  // namespace

std::atomic<std::int64_t> internal::give_way_until{0};

void BeginConnecting() {
  ++connecting;
  internal::give_way_until.store(InNanoseconds(std::chrono::steady_clock::now() + kMoment),
                                 std::memory_order_relaxed);
}

void EndConnecting() {
  if (--connecting == 0) internal::give_way_until.store(0, std::memory_order_relaxed);
}

void internal::GiveWay() {
  std::int64_t until = give_way_until.load(std::memory_order_relaxed);
  if (InNanoseconds(std::chrono::steady_clock::now()) < until) {
    sched_yield();
  } else {
    give_way_until.compare_exchange_strong(until, 0, std::memory_order_relaxed);
  }
}

}  // namespace nd::verbs_lib
