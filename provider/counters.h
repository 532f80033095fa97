// SPDX-License-Identifier: Apache-2.0
// The counters of a queue pair, in memory that its process writes and the broker reads.
//
// One writer at a time (the queue pair's lock holder), so plain relaxed stores suffice. The broker displays
// the values but never acts on them, because a hostile process may write anything.
#pragma once

#include <atomic>
#include <cstdint>

namespace nd::provider {

inline constexpr std::uint32_t kCounterSlotsPerPage = 256;

struct alignas(128) QpCounters {
  std::atomic<std::uint64_t> tx_bytes{0}, rx_bytes{0};
  std::atomic<std::uint64_t> tx_sends{0}, rx_sends{0};
  std::atomic<std::uint64_t> tx_writes{0}, rx_writes{0};
  std::atomic<std::uint64_t> tx_reads{0}, rx_reads{0};  // rx: read requests served
  std::atomic<std::uint64_t> wire_frames{0}, errors{0};
  std::atomic<std::uint64_t> stalls{0};  // Send found no room: ring or window full.
  std::atomic<std::uint32_t> reads_in_flight{0}, reads_in_flight_max{0};  // Outbound, wire level.
  std::atomic<std::uint64_t> wakeups{0};  // Progress thread woken for this queue pair.
  std::uint64_t reserved[3] = {};

  static void Add(std::atomic<std::uint64_t>& counter, std::uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
};
static_assert(sizeof(QpCounters) == 128);

}  // namespace nd::provider
