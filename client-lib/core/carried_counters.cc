// SPDX-License-Identifier: Apache-2.0
// Copies field by field, because a slot consists of atomics that the broker may read at any time.
#include "client-lib/core/carried_counters.h"

#include <utility>

namespace nd::client {
namespace {

void Carry(const provider::QpCounters& from, provider::QpCounters* to) {
  const auto carry = [&](auto field) {
    (to->*field).store((from.*field).load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  using C = provider::QpCounters;
  for (auto field : {&C::tx_bytes, &C::rx_bytes, &C::tx_sends, &C::rx_sends, &C::tx_writes, &C::rx_writes,
                     &C::tx_reads, &C::rx_reads, &C::wire_frames, &C::errors, &C::stalls, &C::wakeups}) {
    carry(field);
  }
  carry(&C::reads_in_flight);
  carry(&C::reads_in_flight_max);
}

}  // namespace

void CarriedCounters::Add(const void* owner, CounterSlot from, CounterSlot to) {
  std::lock_guard lock(mutex_);
  Carry(*from.counters, to.counters);
  entries_[owner] = {std::move(from), std::move(to)};
}

void CarriedCounters::Remove(const void* owner) {
  std::lock_guard lock(mutex_);
  entries_.erase(owner);
}

bool CarriedCounters::Copy() {
  std::lock_guard lock(mutex_);
  for (auto& [owner, entry] : entries_) Carry(*entry.from.counters, entry.to.counters);
  return !entries_.empty();
}

}  // namespace nd::client
