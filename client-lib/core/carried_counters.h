// SPDX-License-Identifier: Apache-2.0
// Queue pairs that survive a broker continue to count in its pages. The counts are copied periodically into
// the pages of the next broker, which costs the data path nothing and needs no support of a provider.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "client-lib/core/mapped_counters.h"
#include "provider/counters.h"

namespace nd::client {

// A slot and the reference that keeps it mapped.
struct CounterSlot {
  std::shared_ptr<MappedCounters> pages;
  provider::QpCounters* counters = nullptr;
};

// Any thread.
class CarriedCounters {
 public:
  // From now on each Copy() copies `from` to `to`. Replaces the former slots of that owner.
  void Add(const void* owner, CounterSlot from, CounterSlot to);
  // After the return nothing is written for `owner`, so its slot may be used again.
  void Remove(const void* owner);
  // Returns false when there is nothing to copy.
  bool Copy();

 private:
  struct Entry {
    CounterSlot from, to;
  };
  std::mutex mutex_;
  std::map<const void*, Entry> entries_;
};

}  // namespace nd::client
