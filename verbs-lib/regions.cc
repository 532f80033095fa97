// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/regions.h"

#include <unordered_map>

namespace nd::verbs_lib {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<std::uint32_t, LocalRegion> regions;
};

// Never destroyed: destructors of the program may still deregister memory.
Table& table() {
  static auto* instance = new Table;
  return *instance;
}

}  // namespace

void AddRegion(std::uint32_t key, const LocalRegion& region) {
  std::lock_guard lock(table().mutex);
  table().regions[key] = region;
}

void RemoveRegion(std::uint32_t key) {
  std::lock_guard lock(table().mutex);
  table().regions.erase(key);
}

RegionReader::RegionReader() : lock_(table().mutex) {}

std::byte* RegionReader::Locate(const ibv_sge& piece, bool write) const {
  const auto found = table().regions.find(piece.lkey);
  if (found == table().regions.end()) return nullptr;
  const LocalRegion& region = found->second;
  if (piece.addr < region.iova || (write && !region.writable)) return nullptr;
  const std::uint64_t offset = piece.addr - region.iova;
  if (offset > region.length || piece.length > region.length - offset) return nullptr;
  return region.memory + offset;
}

}  // namespace nd::verbs_lib
