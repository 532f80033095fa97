// SPDX-License-Identifier: Apache-2.0
// Virtual time: entries run at their time; entries of the same time run in the order in which they were
// added.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"

namespace nd::sim {

class Schedule {
 public:
  using Id = std::pair<Time, std::uint64_t>;

  Time now() const { return now_; }
  Id At(Time when, std::function<void()> what) {
    const Id id{when < now_ ? now_ : when, ++last_};
    due_.emplace(id, std::move(what));
    return id;
  }
  Id After(Duration delay, std::function<void()> what) { return At(now_ + delay, std::move(what)); }
  void Cancel(const Id& id) { due_.erase(id); }
  bool empty() const { return due_.empty(); }
  Time next() const { return due_.begin()->first.first; }
  // Precondition: not empty. Runs the earliest entry at its time.
  void RunNext() {
    auto first = due_.extract(due_.begin());
    if (now_ < first.key().first) now_ = first.key().first;
    first.mapped()();
  }
  // Advances the monotonic clock (a suspended machine): entries in between run late.
  void Jump(Duration by) { now_ += by; }

 private:
  Time now_{std::chrono::hours(1)};
  std::uint64_t last_ = 0;
  std::map<Id, std::function<void()>> due_;
};

}  // namespace nd::sim
