// SPDX-License-Identifier: Apache-2.0
// The pages are sealed, so that the client cannot cause a fault in the reader.
#include "daemon/service/counters_pages.h"

#include <algorithm>

namespace nd::service {

using provider::kCounterSlotsPerPage;
using provider::QpCounters;

namespace {

constexpr std::size_t kCounters = kCounterSlotsPerPage * sizeof(QpCounters);

// Empty when every attempt found the row being written.
std::optional<Region> ReadRow(const provider::RegionRow& row, std::uint32_t* kind) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t sequence = row.sequence.load(std::memory_order_acquire);
    if (sequence % 2 != 0) continue;
    Region region;
    *kind = row.kind.load(std::memory_order_relaxed);
    region.number = row.number.load(std::memory_order_relaxed);
    region.bytes = row.bytes.load(std::memory_order_relaxed);
    region.access = row.access.load(std::memory_order_relaxed);
    region.buffer = (row.flags.load(std::memory_order_relaxed) & provider::kRegionOfBuffer) != 0;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (row.sequence.load(std::memory_order_relaxed) == sequence) return region;
  }
  return std::nullopt;
}

std::atomic<std::uint32_t>& WordOf(provider::SpareWords& words, core::SpareKind kind, std::uint32_t index) {
  return kind == core::SpareKind::kQueuePair ? words.queue_pairs[index] : words.connectors[index];
}

}  // namespace

Result<UniqueFd> CountersPages::Make(std::uint32_t slot) {
  const std::size_t size = kCounters + (HasRegions(slot) ? sizeof(provider::RegionTable) : 0);
  Result<UniqueFd> fd = CreateSealedMemfd("ndbroker-counters", size);
  if (!fd.ok()) return fd;
  Result<Mapping> mapping = Mapping::Map(fd->get(), size, /*writable=*/HasRegions(slot));
  if (!mapping.ok()) return mapping.status();
  pages_.insert_or_assign(slot / kCounterSlotsPerPage, std::move(mapping.value()));
  return fd;
}

std::optional<Traffic> CountersPages::Read(std::uint32_t slot) const {
  const auto it = pages_.find(slot / kCounterSlotsPerPage);
  if (it == pages_.end()) return std::nullopt;
  const auto& counters = reinterpret_cast<const QpCounters*>(it->second.data())[slot % kCounterSlotsPerPage];
  const auto get = [](const auto& value) { return value.load(std::memory_order_relaxed); };
  Traffic traffic;
  traffic.tx_bytes = get(counters.tx_bytes);
  traffic.rx_bytes = get(counters.rx_bytes);
  traffic.tx_sends = get(counters.tx_sends);
  traffic.rx_sends = get(counters.rx_sends);
  traffic.tx_writes = get(counters.tx_writes);
  traffic.rx_writes = get(counters.rx_writes);
  traffic.tx_reads = get(counters.tx_reads);
  traffic.rx_reads = get(counters.rx_reads);
  traffic.wire_frames = get(counters.wire_frames);
  traffic.errors = get(counters.errors);
  traffic.stalls = get(counters.stalls);
  traffic.wakeups = get(counters.wakeups);
  traffic.reads_in_flight = get(counters.reads_in_flight);
  traffic.reads_in_flight_max = get(counters.reads_in_flight_max);
  return traffic;
}

provider::RegionTable* CountersPages::Table() const {
  const auto first = pages_.find(0);
  if (first == pages_.end()) return nullptr;
  return reinterpret_cast<provider::RegionTable*>(first->second.data() + kCounters);
}

bool CountersPages::Offer(core::SpareKind kind, std::uint32_t index, std::uint32_t value) {
  provider::RegionTable* const table = Table();
  if (table == nullptr) return false;
  WordOf(table->spares, kind, index).store(value, std::memory_order_release);
  return true;
}

bool CountersPages::Withdraw(core::SpareKind kind, std::uint32_t index) {
  provider::RegionTable* const table = Table();
  return table != nullptr && WordOf(table->spares, kind, index).exchange(0) != 0;
}

Regions CountersPages::ReadRegions() const {
  Regions regions;
  if (Table() == nullptr) return regions;
  const provider::RegionTable& table = *Table();
  regions.unlisted = table.unlisted.load(std::memory_order_relaxed);
  const std::uint32_t used = std::min(table.used.load(std::memory_order_acquire), provider::kRegionRows);
  for (std::uint32_t i = 0; i < used; ++i) {
    std::uint32_t kind = 0;
    std::optional<Region> region = ReadRow(table.rows[i], &kind);
    if (!region) {
      ++regions.unlisted;
      continue;
    }
    region->window = kind == static_cast<std::uint32_t>(provider::RegionKind::kWindow);
    if (region->window || kind == static_cast<std::uint32_t>(provider::RegionKind::kRegion)) {
      regions.rows.push_back(*region);
    }
  }
  return regions;
}

}  // namespace nd::service
