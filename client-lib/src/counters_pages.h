// SPDX-License-Identifier: Apache-2.0
// The pages in which this process's queue pairs count, so that the broker can show it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/memfd.h"
#include "provider/counters.h"
#include "provider/hand_off.h"

namespace nd::client {

// Any thread. Pages stay mapped until it is destroyed.
class CountersPages {
 public:
  // ACCESS_VIOLATION: the record or its memory is not what it says; REMOTE_ERROR: that page is known.
  Status Add(const provider::CountersPageRecord& record, UniqueFd memory);
  // For a new queue pair: the slot, with every count at 0. Null when no page covers `slot`.
  provider::QpCounters* Slot(std::uint32_t slot);

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Mapping> pages_;  // By first slot.
};

}  // namespace nd::client
