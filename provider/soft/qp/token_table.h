// SPDX-License-Identifier: Apache-2.0
// The registered memory of this process: one table per device, which peers on this host may map read-only.
//
// An STag is 18 bits of slot, chosen at random among the free ones, and 14 random bits. Readers take no
// lock: a slot is live while its `stag` word holds the STag, and every field is read between two reads of
// that word. Only the owner writes (the memfd refuses later writable mappings), so the owner trusts it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/memfd.h"
#include "nd/status.h"

namespace nd::provider::soft {

inline constexpr std::uint32_t kRegionSlotBits = 18;
inline constexpr std::uint32_t kRegionSlots = 1u << kRegionSlotBits;

struct alignas(64) RegionEntry {
  std::atomic<std::uint32_t> stag;    // 0: free.
  std::atomic<std::uint32_t> access;  // MemoryAccess bits.
  std::atomic<std::uint64_t> base;    // In the owner's address space.
  std::atomic<std::uint64_t> length;
  std::atomic<std::uint32_t> buffer;      // The Buffer that contains it; 0: none.
  std::atomic<std::uint32_t> queue_pair;  // Windows: the only queue pair whose peer may use it; 0: any.
  std::atomic<std::uint64_t> buffer_offset;
  // Peers that copy to and from ordinary memory, or borrowed memory, use the rest too.
  std::atomic<std::uint64_t> shift;   // Memory is at `base` + `shift`; the sum may wrap.
  std::atomic<std::uint32_t> domain;  // Only queue pairs of this domain use it.
  std::atomic<std::uint32_t> window;  // 1: a memory window.
  // The program's own shared memory around the region, as a buffer; 0: none. Peers of earlier versions, which
  // do not know `domain`, do not read it.
  std::atomic<std::uint32_t> borrowed;
};
static_assert(sizeof(RegionEntry) == 64);
inline constexpr std::size_t kRegionTableSize = sizeof(RegionEntry) * kRegionSlots;

// A consistent copy of one live entry.
struct RegionView {
  std::uint32_t stag = 0, access = 0, buffer = 0, queue_pair = 0;
  std::uint64_t base = 0, length = 0, buffer_offset = 0;
  std::uint64_t shift = 0;
  std::uint32_t domain = 0;
  std::uint32_t borrowed = 0;
  bool window = false;

  // True when [address, address + size) lies inside; no sum can wrap.
  bool Contains(std::uint64_t address, std::uint64_t size) const {
    if (address < base) return false;
    const std::uint64_t offset = address - base;
    return offset <= length && size <= length - offset;
  }
  // The address in this process.
  std::uint64_t memory() const { return base + shift; }
  // The buffer around it, of either kind; 0: none.
  std::uint32_t shared_as() const { return buffer != 0 ? buffer : borrowed; }
  bool ContainsMemory(std::uint64_t address, std::uint64_t size) const {
    return Contains(address - shift, size);
  }
};

inline std::uint32_t SlotOf(std::uint32_t stag) {
  return stag >> (32 - kRegionSlotBits);
}

// Also for the table of a peer, whose values are hostile but consistent.
inline std::optional<RegionView> ReadRegion(const RegionEntry* table, std::uint32_t stag) {
  if (stag == 0) return std::nullopt;
  const RegionEntry& entry = table[SlotOf(stag)];
  if (entry.stag.load(std::memory_order_acquire) != stag) return std::nullopt;
  RegionView view;
  view.stag = stag;
  view.access = entry.access.load(std::memory_order_relaxed);
  view.base = entry.base.load(std::memory_order_relaxed);
  view.length = entry.length.load(std::memory_order_relaxed);
  view.buffer = entry.buffer.load(std::memory_order_relaxed);
  view.queue_pair = entry.queue_pair.load(std::memory_order_relaxed);
  view.buffer_offset = entry.buffer_offset.load(std::memory_order_relaxed);
  view.shift = entry.shift.load(std::memory_order_relaxed);
  view.domain = entry.domain.load(std::memory_order_relaxed);
  view.borrowed = entry.borrowed.load(std::memory_order_relaxed);
  view.window = entry.window.load(std::memory_order_relaxed) != 0;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (entry.stag.load(std::memory_order_relaxed) != stag) return std::nullopt;
  return view;
}

// Where other processes find a live region of this process' own table.
struct SharedPlace {
  std::uint32_t buffer = 0;  // Not 0.
  std::uint64_t offset = 0;  // In the buffer.
  std::uint64_t memory = 0;  // In this process.
};
inline std::optional<SharedPlace> ReadSharedPlace(const RegionEntry* table, std::uint32_t stag) {
  const RegionEntry& entry = table[SlotOf(stag)];
  if (stag == 0 || entry.stag.load(std::memory_order_acquire) != stag) return std::nullopt;
  SharedPlace place{entry.buffer.load(std::memory_order_relaxed),
                    entry.buffer_offset.load(std::memory_order_relaxed),
                    entry.base.load(std::memory_order_relaxed) + entry.shift.load(std::memory_order_relaxed)};
  if (place.buffer == 0) place.buffer = entry.borrowed.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (place.buffer == 0 || entry.stag.load(std::memory_order_relaxed) != stag) return std::nullopt;
  return place;
}

// As ReadRegion() and the checks of local memory, without a copy of the entry: true when the entry is live,
// of no window and of one of two domains, contains the memory, and gives one of the rights `any_of_access`
// (0: it need not).
struct TwoDomains {
  std::uint32_t one, other;
};
[[gnu::always_inline]] inline bool AllowsLocal(const RegionEntry* table, std::uint32_t stag,
                                               std::uint64_t address, std::uint64_t size, TwoDomains domains,
                                               std::uint32_t any_of_access) {
  const RegionEntry& entry = table[SlotOf(stag)];
  if (stag == 0 || entry.stag.load(std::memory_order_acquire) != stag) return false;
  const std::uint32_t domain = entry.domain.load(std::memory_order_relaxed);
  const std::uint64_t length = entry.length.load(std::memory_order_relaxed);
  // An address before the region makes a large number.
  const std::uint64_t inside =
      address - entry.shift.load(std::memory_order_relaxed) - entry.base.load(std::memory_order_relaxed);
  if (inside > length || size > length - inside) return false;
  if (domain != domains.one && domain != domains.other) return false;
  if (entry.window.load(std::memory_order_relaxed) != 0) return false;
  if (any_of_access != 0 && (entry.access.load(std::memory_order_relaxed) & any_of_access) == 0) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return entry.stag.load(std::memory_order_relaxed) == stag;
}

// The answer of AllowsLocal() for one region, while the table has not changed: what was allowed once is
// allowed again without a look at the entry.
//
// Thread rule: one thread at a time.
class LocalGrant {
 public:
  // `changes`: TokenTable::changes() before the entry was read.
  [[gnu::always_inline]] bool Covers(std::uint32_t stag, std::uint64_t address, std::uint64_t size,
                                     std::uint32_t any_of_access, std::uint64_t changes) const {
    const std::uint64_t inside = address - first_;
    return stag == stag_ && changes == changes_ && inside <= size_ && size <= size_ - inside &&
           (any_of_access == 0 || (access_ & any_of_access) != 0);
  }
  // The table allows an access through `stag`: remembers all that it allows.
  void Learn(const RegionEntry* table, std::uint32_t stag, std::uint64_t changes) {
    const RegionEntry& entry = table[SlotOf(stag)];
    first_ = entry.base.load(std::memory_order_relaxed) + entry.shift.load(std::memory_order_relaxed);
    size_ = entry.length.load(std::memory_order_relaxed);
    access_ = entry.access.load(std::memory_order_relaxed);
    changes_ = changes;
    stag_ = stag;
    // Values of a later region of the slot are followed by its change, which no later Covers() overlooks.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  void Forget() { *this = LocalGrant(); }

 private:
  std::uint64_t first_ = 0, size_ = 0, changes_ = 0;
  std::uint32_t stag_ = 0, access_ = 0;
};

// Thread rule: Lookup may be called from any thread and takes no lock; other members are serialised inside.
class TokenTable {
 public:
  static Result<std::unique_ptr<TokenTable>> Create();

  // Returns the STag. INSUFFICIENT_RESOURCES when every slot is taken.
  Result<std::uint32_t> Insert(const RegionView& view);
  // No new access begins after this call; the caller waits for running ones.
  void Remove(std::uint32_t stag);
  // The two halves of Insert(), and of Remove(). A reserved slot is not live, but no other region gets it.
  // Publish() and Withdraw() may repeat, under any STag of the slot.
  Result<std::uint32_t> Reserve();
  void Publish(std::uint32_t stag, const RegionView& view);
  void Withdraw(std::uint32_t stag);
  void Release(std::uint32_t stag);
  std::optional<RegionView> Lookup(std::uint32_t stag) const { return ReadRegion(entries_, stag); }
  const RegionEntry* entries() const { return entries_; }
  // Grows with each region that becomes live, or ends.
  const std::atomic<std::uint64_t>& changes() const { return changes_; }
  int fd() const { return fd_.get(); }

 private:
  TokenTable() = default;
  std::uint32_t Random();

  UniqueFd fd_;
  Mapping mapping_;
  RegionEntry* entries_ = nullptr;
  std::atomic<std::uint64_t> changes_{0};
  std::mutex mutex_;
  std::uint32_t live_ = 0;
  std::vector<bool> reserved_ = std::vector<bool>(kRegionSlots);
  std::vector<std::uint32_t> random_;
};

}  // namespace nd::provider::soft
