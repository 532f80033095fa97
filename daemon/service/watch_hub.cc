// SPDX-License-Identifier: Apache-2.0
// Costs nothing but a lock while nobody watches.
#include "daemon/service/watch_hub.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace nd::service {
namespace {

std::string TimeText() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(ms));
  return std::string(date.data()) + fraction.data();
}

}  // namespace

void WatchHub::Add(std::shared_ptr<Watcher> watcher) {
  std::lock_guard lock(mutex_);
  watchers_.push_back(std::move(watcher));
}

void WatchHub::Remove(const Watcher* watcher) {
  std::shared_ptr<Watcher> last;  // Let go of outside the lock.
  std::lock_guard lock(mutex_);
  for (auto& entry : watchers_) {
    if (entry.get() != watcher) continue;
    last = std::move(entry);
    if (&entry != &watchers_.back()) entry = std::move(watchers_.back());
    watchers_.pop_back();
    return;
  }
}

void WatchHub::Publish(std::string_view type, std::string_view object, std::string_view message) {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    if (watchers_.empty()) return;
    watchers = watchers_;  // Offering may end a watcher, which removes itself.
  }
  ndbroker::v1::WatchEvent event;
  event.set_time(TimeText());
  event.set_type(std::string(type));
  event.set_object(std::string(object));
  event.set_message(std::string(message));
  for (const auto& watcher : watchers) watcher->Offer(event);
}

}  // namespace nd::service
