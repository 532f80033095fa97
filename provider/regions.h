// SPDX-License-Identifier: Apache-2.0
// The memory regions of a process, in a table that the process writes and the broker reads (docs/wire.md).
//
// The table follows the counters of a session's first page. One writer at a time; a row is written when a
// region is registered or deregistered, never on the data path. The broker displays rows but never acts on
// them, because a hostile process may write anything.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "provider/hand_off.h"

namespace nd::provider {

inline constexpr std::uint32_t kRegionRows = 4096;

enum class RegionKind : std::uint32_t { kNone = 0, kRegion = 1, kWindow = 2 };
inline constexpr std::uint32_t kRegionOfBuffer = 0x1;  // Flag: the memory is an nd::Buffer's.

struct alignas(64) RegionRow {
  std::atomic<std::uint32_t> sequence{0};  // Odd while the row is being written; changes with each change.
  std::atomic<std::uint32_t> kind{0};      // RegionKind
  std::atomic<std::uint64_t> number{0};    // Of this session; never used again.
  std::atomic<std::uint64_t> bytes{0};     // 0 for a window, whose size changes with each bind.
  std::atomic<std::uint32_t> access{0};    // nd::MemoryAccess
  std::atomic<std::uint32_t> flags{0};
  std::uint64_t reserved[4] = {};
};
static_assert(sizeof(RegionRow) == 64);

// The objects that the client may make without waiting for the broker: word i of a kind is spare i + 1, or 0.
// The broker offers a spare by storing a value and withdraws it by exchanging the word for 0; the client
// takes it the same way. A word decides only which of the two has the spare, so a client that writes anything
// else deceives itself alone.
inline constexpr std::uint32_t kSpares = 4;
struct SpareWords {
  std::atomic<std::uint32_t> queue_pairs[kSpares] = {};  // The counter slot of the queue pair, plus 1.
  std::atomic<std::uint32_t> connectors[kSpares] = {};   // 1
};

struct alignas(64) RegionTable {
  std::atomic<std::uint64_t> unlisted{0};  // Regions and windows that found no free row.
  std::atomic<std::uint32_t> used{0};      // The first row that was never used.
  SpareWords spares;                       // 0 with a broker that offers none.
  RegionRow rows[kRegionRows];
};
static_assert(offsetof(RegionTable, spares) == 12 && offsetof(RegionTable, rows) == 64);

// How many rows follow the counters of this page. A broker without the table sends 0, and a client that does
// not know the table ignores the field.
inline std::uint32_t& RegionRowsOf(CountersPageRecord& record) {
  return record.reserved;
}

}  // namespace nd::provider
