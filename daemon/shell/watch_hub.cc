// SPDX-License-Identifier: Apache-2.0
// Costs one remembered event while there are no watchers.
#include "daemon/shell/watch_hub.h"

#include <algorithm>
#include <utility>

namespace nd::service {

void WatchHub::Add(const std::shared_ptr<Watcher>& watcher, std::optional<WallTime> since, bool past_only) {
  if (!past_only) {
    // Added first, so that a watcher that ends during the past events can remove itself.
    std::lock_guard lock(mutex_);
    watchers_.push_back(watcher);
  }
  if (since) {
    std::uint64_t lost = *since <= last_forgotten_ ? forgotten_ : 0;
    for (const WatchedEvent& event : events_) {
      if (event.time >= *since) watcher->Offer(event, std::exchange(lost, 0));
    }
  }
  if (past_only) watcher->PastIsOver();
}

void WatchHub::Remove(const Watcher* watcher) {
  std::shared_ptr<Watcher> last;  // Released outside the lock.
  std::lock_guard lock(mutex_);
  for (auto& entry : watchers_) {
    if (entry.get() != watcher) continue;
    last = std::move(entry);
    if (&entry != &watchers_.back()) entry = std::move(watchers_.back());
    watchers_.pop_back();
    return;
  }
}

void WatchHub::Newest(
    std::uint64_t after, std::size_t most,
    const std::function<void(std::uint64_t number, const WatchedEvent& event)>& visit) const {
  const std::uint64_t first = std::max(after, published() - std::min(most, events_.size()));
  for (std::uint64_t i = first - forgotten_; i < events_.size(); ++i) visit(forgotten_ + i, events_[i]);
}

void WatchHub::Publish(WallTime now, std::string_view type, std::string object, std::string message) {
  if (events_.size() == kRemembered) {
    ++forgotten_;
    last_forgotten_ = events_.front().time;
    events_.pop_front();
  }
  events_.push_back({now, std::string(type), std::move(object), std::move(message)});
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    if (watchers_.empty()) return;
    watchers = watchers_;  // A copy, because offering an event may end a watcher, which removes itself.
  }
  const WatchedEvent event = events_.back();  // Offering it may publish another one.
  for (const auto& watcher : watchers) watcher->Offer(event, 0);
}

}  // namespace nd::service
