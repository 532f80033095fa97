// SPDX-License-Identifier: Apache-2.0
// The pages that one session's queue pairs count on: made here, written by the client, only read by us.
//
// Values are hostile: they are added up and shown as they are. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/memfd.h"
#include "base/unique_fd.h"
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

// One registered piece of memory, as the client says.
struct Region {
  std::uint64_t number = 0, bytes = 0;
  bool window = false, buffer = false;
  std::uint32_t access = 0;
};
struct Regions {
  std::vector<Region> rows;
  std::uint64_t untold = 0;
};

class CountersPages {
 public:
  bool Has(std::uint32_t slot) const { return pages_.contains(slot / provider::kCounterSlotsPerPage); }
  // The page for `slot`, to be sent to the client. INSUFFICIENT_RESOURCES.
  Result<UniqueFd> Make(std::uint32_t slot);
  static std::uint32_t FirstSlot(std::uint32_t slot) { return slot - slot % provider::kCounterSlotsPerPage; }

  std::optional<Traffic> Read(std::uint32_t slot) const;
  // With the first page comes the table of regions (provider/regions.h).
  static bool HasRegions(std::uint32_t slot) { return slot < provider::kCounterSlotsPerPage; }
  // A row that changes all the time while it is read is left out and counted as untold.
  Regions ReadRegions() const;

 private:
  std::map<std::uint32_t, Mapping> pages_;
};

}  // namespace nd::service
