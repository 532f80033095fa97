// SPDX-License-Identifier: Apache-2.0
// The pages with the counters of the queue pairs of one session: made here, written by the client, and only
// read by the broker, except for the words of the spares.
//
// Values are not trusted: they are summed and shown as they are. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/memfd.h"
#include "base/unique_fd.h"
#include "daemon/core/spares.h"
#include "provider/counters.h"
#include "provider/regions.h"

namespace nd::service {

struct Traffic {
  std::uint64_t tx_bytes = 0, rx_bytes = 0;
  std::uint64_t tx_sends = 0, rx_sends = 0, tx_writes = 0, rx_writes = 0, tx_reads = 0, rx_reads = 0;
  std::uint64_t wire_frames = 0, errors = 0, stalls = 0, wakeups = 0;
  std::uint32_t reads_in_flight = 0, reads_in_flight_max = 0;

  std::uint64_t tx_messages() const { return tx_sends + tx_writes + tx_reads; }
  std::uint64_t rx_messages() const { return rx_sends + rx_writes + rx_reads; }
};

// One registered memory region, as reported by the client.
struct Region {
  std::uint64_t number = 0, bytes = 0;
  bool window = false, buffer = false;
  std::uint32_t access = 0;
};
struct Regions {
  std::vector<Region> rows;
  std::uint64_t unlisted = 0;
};

class CountersPages {
 public:
  bool Has(std::uint32_t slot) const { return pages_.contains(slot / provider::kCounterSlotsPerPage); }
  // Makes the page for `slot`, to be sent to the client. INSUFFICIENT_RESOURCES.
  Result<UniqueFd> Make(std::uint32_t slot);
  static std::uint32_t FirstSlot(std::uint32_t slot) { return slot - slot % provider::kCounterSlotsPerPage; }

  std::optional<Traffic> Read(std::uint32_t slot) const;
  // The table of regions (provider/regions.h) comes with the first page.
  static bool HasRegions(std::uint32_t slot) { return slot < provider::kCounterSlotsPerPage; }
  // The words of the spares come with it (core::SpareBoard). False without the page.
  bool Offer(core::SpareKind kind, std::uint32_t index, std::uint32_t value);
  // False: the word was 0 already.
  bool Withdraw(core::SpareKind kind, std::uint32_t index);
  // A row that changes during every reading is left out and counted as unlisted.
  Regions ReadRegions() const;

 private:
  provider::RegionTable* Table() const;  // Null without the first page.

  std::map<std::uint32_t, Mapping> pages_;
};

}  // namespace nd::service
