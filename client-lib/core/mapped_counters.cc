// SPDX-License-Identifier: Apache-2.0
// Counters are in shared memory, so that reading them costs the data path nothing.
#include "client-lib/core/mapped_counters.h"

#include <new>
#include <string>
#include <utility>

namespace nd::client {
namespace {

constexpr std::uint32_t kMaxSlots = 1 << 20;
constexpr std::uint32_t kMaxSlotsPerPage = 1 << 16;

std::optional<MappedCounters::Spare> TakeOne(std::atomic<std::uint32_t> (&words)[provider::kSpares]) {
  for (std::uint32_t i = 0; i < provider::kSpares; ++i) {
    if (words[i].load(std::memory_order_relaxed) == 0) continue;
    if (const std::uint32_t value = words[i].exchange(0)) return MappedCounters::Spare{i + 1, value};
  }
  return std::nullopt;
}

}  // namespace

Status MappedCounters::Add(const provider::CountersPageRecord& given, UniqueFd memory) {
  provider::CountersPageRecord record = given;
  if (record.slot_count == 0 || record.slot_count > kMaxSlotsPerPage || record.first_slot > kMaxSlots) {
    return {StatusCode::kAccessViolation, "a counters page of " + std::to_string(record.slot_count) +
                                              " slots from " + std::to_string(record.first_slot) +
                                              " is out of range"};
  }
  const std::size_t counters = std::size_t{record.slot_count} * sizeof(provider::QpCounters);
  // A table of another size belongs to a later protocol.
  const bool table = provider::RegionRowsOf(record) == provider::kRegionRows;
  const std::size_t size = counters + (table ? sizeof(provider::RegionTable) : 0);
  if (auto checked = CheckSealedMemfd(memory.get(), size); !checked.ok()) return checked.status();
  auto mapping = Mapping::Map(memory.get(), size, true);
  if (!mapping.ok()) return mapping.status();
  std::lock_guard lock(mutex_);
  const auto [page, added] = pages_.emplace(record.first_slot, std::move(mapping).value());
  if (!added) {
    return {StatusCode::kRemoteError, "a second counters page for slot " + std::to_string(record.first_slot)};
  }
  slots_[record.first_slot] = record.slot_count;
  // All zeros is an empty table.
  if (table && regions_ == nullptr) {
    regions_ = reinterpret_cast<provider::RegionTable*>(page->second.data() + counters);
  }
  return {};
}

provider::RegionTable* MappedCounters::regions() {
  std::lock_guard lock(mutex_);
  return regions_;
}

std::optional<MappedCounters::Spare> MappedCounters::TakeQueuePair() {
  provider::RegionTable* const table = regions();
  return table == nullptr ? std::nullopt : TakeOne(table->spares.queue_pairs);
}

std::optional<MappedCounters::Spare> MappedCounters::TakeConnector() {
  provider::RegionTable* const table = regions();
  return table == nullptr ? std::nullopt : TakeOne(table->spares.connectors);
}

provider::QpCounters* MappedCounters::Slot(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  auto it = pages_.upper_bound(slot);
  if (it == pages_.begin()) return nullptr;
  --it;
  const std::size_t offset = std::size_t{slot - it->first} * sizeof(provider::QpCounters);
  if (slot - it->first >= slots_.at(it->first)) return nullptr;
  // A slot is used again, so the counts of the former queue pair are cleared.
  return new (it->second.data() + offset) provider::QpCounters();
}

}  // namespace nd::client
