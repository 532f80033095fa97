// SPDX-License-Identifier: Apache-2.0
// The pages that one session's queue pairs count on: made here, written by the client, only read by us.
//
// Values are hostile: they are added up and shown as they are. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/memfd.h"
#include "base/unique_fd.h"
#include "provider/counters.h"

namespace nd::service {

struct Traffic {
  std::uint64_t tx_bytes = 0, rx_bytes = 0, tx_messages = 0, rx_messages = 0, errors = 0;
  std::uint32_t reads_in_flight = 0, reads_in_flight_max = 0;
};

class CountersPages {
 public:
  bool Has(std::uint32_t slot) const { return pages_.contains(slot / provider::kCounterSlotsPerPage); }
  // The page for `slot`, to be sent to the client. INSUFFICIENT_RESOURCES.
  Result<UniqueFd> Make(std::uint32_t slot);
  static std::uint32_t FirstSlot(std::uint32_t slot) { return slot - slot % provider::kCounterSlotsPerPage; }

  std::optional<Traffic> Read(std::uint32_t slot) const;

 private:
  std::map<std::uint32_t, Mapping> pages_;
};

}  // namespace nd::service
