// SPDX-License-Identifier: Apache-2.0
// Each row is a seqlock with one writer, so that the broker can read it at any time.
#include "client-lib/core/listed_regions.h"

namespace nd::client {

using provider::kRegionRows;

std::uint64_t ListedRegions::Add(const RegionFacts& facts) {
  std::lock_guard lock(mutex_);
  const std::uint64_t number = ++last_;
  Place(number, entries_[number] = {facts, std::nullopt});
  return number;
}

void ListedRegions::Remove(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  const std::optional<std::uint32_t> row = found->second.row;
  entries_.erase(found);
  unlisted_.erase(number);
  if (row) {
    Write(*row, 0, {});
    free_.push_back(*row);
    if (!unlisted_.empty()) {
      const std::uint64_t next = *unlisted_.begin();
      unlisted_.erase(unlisted_.begin());
      Place(next, entries_.at(next));
    }
  }
  CountUntold();
}

void ListedRegions::Change(std::uint64_t number, std::uint64_t bytes, std::uint32_t access) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  RegionFacts& facts = found->second.facts;
  facts.bytes = bytes;
  facts.access = access;
  facts.flags = 0;
  if (found->second.row) Write(*found->second.row, number, facts);
}

void ListedRegions::Use(const std::shared_ptr<MappedCounters>& pages) {
  provider::RegionTable* const table = pages == nullptr ? nullptr : pages->regions();
  std::lock_guard lock(mutex_);
  if (table == nullptr || table == table_) return;
  pages_ = pages;
  table_ = table;
  free_.clear();
  unlisted_.clear();
  next_ = 0;
  for (auto& [number, entry] : entries_) {
    entry.row.reset();
    Place(number, entry);
  }
}

void ListedRegions::Place(std::uint64_t number, Entry& entry) {
  if (table_ == nullptr) return;
  if (!free_.empty()) {
    entry.row = free_.back();
    free_.pop_back();
  } else if (next_ < kRegionRows) {
    entry.row = next_++;
    table_->used.store(next_, std::memory_order_release);
  } else {
    unlisted_.insert(number);
    CountUntold();
    return;
  }
  Write(*entry.row, number, entry.facts);
}

void ListedRegions::Write(std::uint32_t index, std::uint64_t number, const RegionFacts& facts) {
  provider::RegionRow& row = table_->rows[index];
  const std::uint32_t sequence = row.sequence.load(std::memory_order_relaxed) | 1u;
  row.sequence.store(sequence, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  row.kind.store(static_cast<std::uint32_t>(facts.kind), std::memory_order_relaxed);
  row.number.store(number, std::memory_order_relaxed);
  row.bytes.store(facts.bytes, std::memory_order_relaxed);
  row.access.store(facts.access, std::memory_order_relaxed);
  row.flags.store(facts.flags, std::memory_order_relaxed);
  row.sequence.store(sequence + 1, std::memory_order_release);
}

void ListedRegions::CountUntold() {
  if (table_ != nullptr) table_->unlisted.store(unlisted_.size(), std::memory_order_relaxed);
}

Status Deregister(const std::shared_ptr<provider::MemoryRegion>& region) {
  Status status = region->Deregister();
  if (!status.ok()) return status;
  if (auto* listed = std::get_deleter<ListedRegion>(region)) listed->Forget();
  return status;
}

Status Change(const std::shared_ptr<provider::MemoryRegion>& region, void* address, std::size_t length,
              std::uint32_t access, const RegionOptions& options) {
  Status status = region->Change(address, length, access, options);
  if (!status.ok()) return status;
  if (auto* listed = std::get_deleter<ListedRegion>(region)) listed->Change(length, access);
  return status;
}

}  // namespace nd::client
