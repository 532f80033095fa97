// SPDX-License-Identifier: Apache-2.0
// The pages in which this process's queue pairs count, so that the broker can show it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/memfd.h"
#include "provider/counters.h"
#include "provider/hand_off.h"
#include "provider/regions.h"

namespace nd::client {

// Any thread. Pages stay mapped until it is destroyed.
class CountersPages {
 public:
  // ACCESS_VIOLATION: the record or its memory is not what it says; REMOTE_ERROR: that page is known.
  Status Add(const provider::CountersPageRecord& record, UniqueFd memory);
  // For a new queue pair: the slot, with every count at 0. Null when no page covers `slot`.
  provider::QpCounters* Slot(std::uint32_t slot);
  // Where the broker reads which regions there are. Null: it does not want to know, or no page has come yet.
  provider::RegionTable* regions();

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, Mapping> pages_;  // By first slot.
  std::map<std::uint32_t, std::uint32_t> slots_;  // By first slot: how many.
  provider::RegionTable* regions_ = nullptr;
};

}  // namespace nd::client
