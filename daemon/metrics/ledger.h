// SPDX-License-Identifier: Apache-2.0
// Sums by key for keys that clients choose. The number of keys is bounded, and no group can displace the keys
// of another.
//
// A key without room replaces the key of its group that is idle for the longest time. When all keys of the
// group are in use, it is counted under the overflow key of the group. Rows do not move while they are in
// use. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"

namespace nd::ops {

// The counters of a queue pair, by index.
enum class Count : std::uint8_t {
  kTxBytes,
  kRxBytes,
  kTxSends,
  kRxSends,
  kTxWrites,
  kRxWrites,
  kTxReads,
  kRxReads,
  kErrors,
  kStalls,
  kWakeups
};
inline constexpr std::size_t kCounts = 11;
using Flow = std::array<std::uint64_t, kCounts>;
inline std::uint64_t At(const Flow& flow, Count count) {
  return flow[static_cast<std::size_t>(count)];
}

inline void AddTo(std::uint64_t& total, std::uint64_t n) {
  total = total > std::numeric_limits<std::uint64_t>::max() - n ? std::numeric_limits<std::uint64_t>::max()
                                                                : total + n;
}

// Totals never decrease, and stop at the largest value.
struct Row {
  Flow flow{};
  std::uint32_t sessions = 0, connections = 0;  // The current numbers.
  std::uint64_t connects = 0, accepts = 0, failures = 0, broken = 0;

  bool idle() const { return sessions == 0 && connections == 0; }
};

template <typename Key>
class Ledger {
 public:
  struct Limits {
    std::size_t keys = 512, keys_of_group = 64;
    std::function<std::uint64_t(const Key&)> group;  // Null: one group.
    std::function<Key(const Key&)> overflow;
    Key rest;  // Overflow of the overflow keys, of which there are at most `keys`.
  };
  explicit Ledger(Limits limits) : limits_(std::move(limits)) {}

  struct Entry {
    std::shared_ptr<const Key> key;
    Row row;
    Time used{};
  };
  // Returns the entry for `key`, valid while it is in use.
  Entry& Of(const Key& key, Time now) {
    if (const auto it = entries_.find(key); it != entries_.end()) return Used(it->second, now);
    if (!MakeRoom(key)) {
      Key other = limits_.overflow(key);
      if (entries_.size() >= 2 * limits_.keys && !entries_.contains(other)) other = limits_.rest;
      return Used(
          entries_.try_emplace(other, Entry{std::make_shared<const Key>(other), {}, {}}).first->second, now);
    }
    return Used(entries_.try_emplace(key, Entry{std::make_shared<const Key>(key), {}, {}}).first->second,
                now);
  }
  const std::map<Key, Entry>& entries() const { return entries_; }

 private:
  static Entry& Used(Entry& entry, Time now) {
    entry.used = now;
    return entry;
  }
  std::uint64_t GroupOf(const Key& key) const { return limits_.group ? limits_.group(key) : 0; }
  // Overflow keys are extra: one for each group, which a client cannot choose.
  bool MakeRoom(const Key& key) {
    std::size_t in_group = 0;
    auto oldest = entries_.end(), oldest_of_group = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      const bool same = GroupOf(it->first) == GroupOf(key);
      in_group += same;
      if (!it->second.row.idle()) continue;
      if (oldest == entries_.end() || it->second.used < oldest->second.used) oldest = it;
      if (same && (oldest_of_group == entries_.end() || it->second.used < oldest_of_group->second.used)) {
        oldest_of_group = it;
      }
    }
    if (in_group >= limits_.keys_of_group) {
      if (oldest_of_group == entries_.end()) return false;
      entries_.erase(oldest_of_group);
      return true;
    }
    if (entries_.size() < limits_.keys) return true;
    if (oldest == entries_.end()) return false;
    entries_.erase(oldest);
    return true;
  }

  const Limits limits_;
  std::map<Key, Entry> entries_;
};

}  // namespace nd::ops
