// SPDX-License-Identifier: Apache-2.0
// Sealed, so that the client cannot make our reading of a page fault.
#include "daemon/service/counters_pages.h"

namespace nd::service {

using provider::kCounterSlotsPerPage;
using provider::QpCounters;

Result<UniqueFd> CountersPages::Make(std::uint32_t slot) {
  constexpr std::size_t kSize = kCounterSlotsPerPage * sizeof(QpCounters);
  Result<UniqueFd> fd = CreateSealedMemfd("ndbroker-counters", kSize);
  if (!fd.ok()) return fd;
  Result<Mapping> mapping = Mapping::Map(fd->get(), kSize, /*writable=*/false);
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
  traffic.tx_messages = get(counters.tx_sends) + get(counters.tx_writes) + get(counters.tx_reads);
  traffic.rx_messages = get(counters.rx_sends) + get(counters.rx_writes) + get(counters.rx_reads);
  traffic.errors = get(counters.errors);
  traffic.reads_in_flight = get(counters.reads_in_flight);
  traffic.reads_in_flight_max = get(counters.reads_in_flight_max);
  return traffic;
}

}  // namespace nd::service
