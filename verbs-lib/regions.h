// SPDX-License-Identifier: Apache-2.0
// The memory regions of this process by local key, for work that this library does itself (datagrams).
//
// Thread rule: any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <shared_mutex>
#include <span>
#include <vector>

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

// A region whose requests name other addresses than those of its memory exists in this process.
bool AnyRegionIsShifted();

// No region goes away while one of these lives.
class RegionReader {
 public:
  RegionReader();
  // Null: there is no such region, the piece reaches outside it, or it is not writable.
  std::byte* Locate(const ibv_sge& piece, bool write) const;

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

// The pieces of a request at the addresses of their memory, for the library.
class LocalPieces {
 public:
  explicit LocalPieces(std::span<const ibv_sge> pieces) : pieces_(pieces) {
    if (AnyRegionIsShifted()) Move();
  }
  LocalPieces(const LocalPieces&) = delete;
  LocalPieces& operator=(const LocalPieces&) = delete;
  std::span<const ibv_sge> get() const { return pieces_; }

 private:
  void Move();

  std::span<const ibv_sge> pieces_;
  std::vector<ibv_sge> moved_;
};

}  // namespace nd::verbs_lib
