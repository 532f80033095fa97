// SPDX-License-Identifier: Apache-2.0
// The memory regions of this process by local key, for work that this library does itself (datagrams).
//
// Thread rule: any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace nd::verbs_lib {

struct LocalRegion {
  std::byte* memory = nullptr;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;  // The address that requests name for `memory`.
  bool writable = false;
};

void AddRegion(std::uint32_t key, const LocalRegion& region);
// Returns when the region is not in use any more.
void RemoveRegion(std::uint32_t key);

// No region goes away while one of these lives.
class RegionReader {
 public:
  RegionReader();
  // Null: there is no such region, the piece reaches outside it, or it is not writable.
  std::byte* Locate(const ibv_sge& piece, bool write) const;

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace nd::verbs_lib
