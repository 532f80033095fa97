// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/regions.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "verbs-lib/fault_guard.h"

namespace nd::verbs_lib {
namespace {

struct RegionTable {
  std::shared_mutex mutex;
  std::unordered_map<std::uint32_t, LocalRegion> regions;
};

// Those of the table with a difference.
std::atomic<std::uint32_t> shifted{0};

bool IsShifted(const LocalRegion& region) {
  return region.iova != reinterpret_cast<std::uintptr_t>(region.memory);
}

// Never destroyed: destructors of the program may still deregister memory.
RegionTable& region_table() {
  static auto* instance = new RegionTable;
  return *instance;
}

}  // namespace

void AddRegion(std::uint32_t key, const LocalRegion& region) {
  std::lock_guard lock(region_table().mutex);
  LocalRegion& place = region_table().regions[key];
  if (place.memory != nullptr) {
    UnguardMemory(place.memory, place.length);
    if (IsShifted(place)) --shifted;
  }
  if (IsShifted(region)) ++shifted;
  place = region;
  GuardMemory(region.memory, region.length);
}

void RemoveRegion(std::uint32_t key) {
  std::lock_guard lock(region_table().mutex);
  const auto found = region_table().regions.find(key);
  if (found == region_table().regions.end()) return;
  UnguardMemory(found->second.memory, found->second.length);
  if (IsShifted(found->second)) --shifted;
  region_table().regions.erase(found);
}

bool AnyRegionIsShifted() {
  return shifted.load(std::memory_order_relaxed) != 0;
}

RegionReader::RegionReader() : lock_(region_table().mutex) {}

std::byte* RegionReader::Locate(const ibv_sge& piece, bool write) const {
  const auto found = region_table().regions.find(piece.lkey);
  if (found == region_table().regions.end()) return nullptr;
  const LocalRegion& region = found->second;
  if (piece.addr < region.iova || (write && !region.writable)) return nullptr;
  const std::uint64_t offset = piece.addr - region.iova;
  if (offset > region.length || piece.length > region.length - offset) return nullptr;
  return region.memory + offset;
}

void LocalPieces::Move() {
  const RegionReader reader;
  moved_.assign(pieces_.begin(), pieces_.end());
  for (ibv_sge& piece : moved_) {
    // A piece that is in no region stays, and fails when it is used.
    if (std::byte* memory = reader.Locate(piece, false))
      piece.addr = reinterpret_cast<std::uintptr_t>(memory);
  }
  pieces_ = moved_;
}

}  // namespace nd::verbs_lib
