// SPDX-License-Identifier: Apache-2.0
// Queue pairs that outlive a broker go on counting in its pages. What they count is carried over into the
// next broker's from time to time: that costs the data path nothing and asks nothing of a provider.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "client-lib/src/counters_pages.h"
#include "provider/counters.h"

namespace nd::client {

// A slot, and what keeps it mapped.
struct CounterSlot {
  std::shared_ptr<CountersPages> pages;
  provider::QpCounters* counters = nullptr;
};

// Any thread.
class CarriedCounters {
 public:
  // From now on `to` shows what `from` counts, with the next Copy() at the latest. Replaces what was said of
  // that owner before.
  void Add(const void* owner, CounterSlot from, CounterSlot to);
  // Nothing is written for `owner` any more when this returns: its slot may get a new user.
  void Remove(const void* owner);
  // False when there is nothing to carry.
  bool Copy();

 private:
  struct Entry {
    CounterSlot from, to;
  };
  std::mutex mutex_;
  std::map<const void*, Entry> entries_;
};

}  // namespace nd::client
