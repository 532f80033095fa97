// SPDX-License-Identifier: Apache-2.0
// Counters live in shared memory, so that asking for them costs the data path nothing.
#include "client-lib/src/counters_pages.h"

#include <new>
#include <string>
#include <utility>

namespace nd::client {
namespace {

constexpr std::uint32_t kMaxSlots = 1 << 20;
constexpr std::uint32_t kMaxSlotsPerPage = 1 << 16;

}  // namespace

Status CountersPages::Add(const provider::CountersPageRecord& record, UniqueFd memory) {
  if (record.slot_count == 0 || record.slot_count > kMaxSlotsPerPage || record.first_slot > kMaxSlots) {
    return {StatusCode::kAccessViolation, "a counters page of " + std::to_string(record.slot_count) +
                                              " slots from " + std::to_string(record.first_slot) +
                                              " is out of range"};
  }
  const std::size_t size = std::size_t{record.slot_count} * sizeof(provider::QpCounters);
  if (auto checked = CheckSealedMemfd(memory.get(), size); !checked.ok()) return checked.status();
  auto mapping = Mapping::Map(memory.get(), size, true);
  if (!mapping.ok()) return mapping.status();
  std::lock_guard lock(mutex_);
  if (!pages_.emplace(record.first_slot, std::move(mapping).value()).second) {
    return {StatusCode::kRemoteError, "a second counters page for slot " + std::to_string(record.first_slot)};
  }
  return {};
}

provider::QpCounters* CountersPages::Slot(std::uint32_t slot) {
  std::lock_guard lock(mutex_);
  auto it = pages_.upper_bound(slot);
  if (it == pages_.begin()) return nullptr;
  --it;
  const std::size_t offset = std::size_t{slot - it->first} * sizeof(provider::QpCounters);
  if (offset + sizeof(provider::QpCounters) > it->second.size()) return nullptr;
  // Slots are used again, and what the queue pair before counted is not this one's.
  return new (it->second.data() + offset) provider::QpCounters();
}

}  // namespace nd::client
