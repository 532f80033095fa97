// SPDX-License-Identifier: Apache-2.0
// Maintains the table of the memory regions and windows of this session, which the broker reads for ndctl.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "client-lib/core/fork_guard.h"
#include "client-lib/core/mapped_counters.h"
#include "nd/status.h"
#include "provider/qp.h"
#include "provider/regions.h"

namespace nd::client {

struct RegionFacts {
  provider::RegionKind kind = provider::RegionKind::kNone;
  std::uint64_t bytes = 0;
  std::uint32_t access = 0, flags = 0;
};

// Any thread.
class ListedRegions {
 public:
  std::uint64_t Add(const RegionFacts& facts);
  void Remove(std::uint64_t number);
  void Change(std::uint64_t number, std::uint64_t bytes, std::uint32_t access);
  // Sets the pages of the present broker and writes every region into their table. Does nothing when they
  // have no table or it is in use already.
  void Use(const std::shared_ptr<MappedCounters>& pages);

 private:
  struct Entry {
    RegionFacts facts;
    std::optional<std::uint32_t> row;
  };
  void Place(std::uint64_t number, Entry& entry);
  void Write(std::uint32_t row, std::uint64_t number, const RegionFacts& facts);
  void CountUntold();

  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Entry> entries_;
  std::set<std::uint64_t> unlisted_;
  std::shared_ptr<MappedCounters> pages_;  // Keeps `table_` mapped.
  provider::RegionTable* table_ = nullptr;
  std::vector<std::uint32_t> free_;  // Rows below `next_`.
  std::uint32_t next_ = 0;
};

// The deleter of the pointer of a handle: the row ends with the last handle, or earlier by Forget().
class ListedRegion {
 public:
  ListedRegion(std::shared_ptr<const void> kept, std::shared_ptr<ListedRegions> table,
               const RegionFacts& facts)
      : kept_(std::move(kept)), table_(std::move(table)), number_(table_->Add(facts)) {}
  void operator()(const void*) {
    Forget();
    kept_.reset();
  }
  void Change(std::uint64_t bytes, std::uint32_t access) {
    if (table_ != nullptr && !mark_.InChild()) table_->Change(number_, bytes, access);
  }
  void Forget() {
    if (table_ == nullptr || mark_.InChild()) return;
    table_->Remove(number_);
    table_.reset();
  }

 private:
  std::shared_ptr<const void> kept_;
  std::shared_ptr<ListedRegions> table_;
  std::uint64_t number_;
  ForkMark mark_;
};

template <typename T>
std::shared_ptr<T> Listed(std::shared_ptr<T> object, const std::shared_ptr<ListedRegions>& table,
                          const RegionFacts& facts) {
  T* const raw = object.get();
  return std::shared_ptr<T>(raw, ListedRegion(std::move(object), table, facts));
}

// Ends a registration. Its row ends too, although other handles of the region may remain.
Status Deregister(const std::shared_ptr<provider::MemoryRegion>& region);
// Changes a registration and its row.
Status Change(const std::shared_ptr<provider::MemoryRegion>& region, void* address, std::size_t length,
              std::uint32_t access, const RegionOptions& options);

}  // namespace nd::client
