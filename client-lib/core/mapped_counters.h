// SPDX-License-Identifier: Apache-2.0
// The pages with the counters of the queue pairs of this process, which the broker reads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "base/memfd.h"
#include "provider/counters.h"
#include "provider/hand_off.h"
#include "provider/regions.h"

namespace nd::client {

// Any thread. Pages stay mapped until it is destroyed.
class MappedCounters {
 public:
  // ACCESS_VIOLATION: the memory does not match the record; REMOTE_ERROR: the page is known already.
  Status Add(const provider::CountersPageRecord& record, UniqueFd memory);
  // Returns the slot for a new queue pair, with all counts 0; null when no page has `slot`.
  provider::QpCounters* Slot(std::uint32_t slot);
  // Takes an object that may be made ahead (provider/regions.h); no value when the broker offers none.
  struct Spare {
    std::uint32_t number = 0;  // For the operation.
    std::uint32_t value = 0;
  };
  std::optional<Spare> TakeQueuePair();
  std::optional<Spare> TakeConnector();
  // The table of regions for the broker; null when the broker has none or no page has arrived.
  provider::RegionTable* regions();

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Mapping> pages_;        // By first slot.
  std::map<std::uint32_t, std::uint32_t> slots_;  // The number of slots, by first slot.
  provider::RegionTable* regions_ = nullptr;
};

}  // namespace nd::client
