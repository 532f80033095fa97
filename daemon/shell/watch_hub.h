// SPDX-License-Identifier: Apache-2.0
// Distributes events to all watchers and remembers the newest ones for later watchers. A watcher that falls
// behind receives the number of events that it missed.
//
// On the loop thread, so that past and future events of a new watcher meet without a gap; watchers may leave
// on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/shell/time_text.h"

namespace nd::service {

struct WatchedEvent {
  WallTime time;
  std::string type, object, message;
};

class Watcher {
 public:
  virtual ~Watcher() = default;
  // `lost`: the number of events before this one that the watcher does not receive.
  virtual void Offer(const WatchedEvent& event, std::uint64_t lost) = 0;
  // Called after the last of the requested past events.
  virtual void PastIsOver() {}
};

class WatchHub {
 public:
  static constexpr std::size_t kRemembered = 8192;

  // Adds a watcher. It receives the remembered events from `since` on, then every new event. The first event
  // has the number of forgotten ones in that time. `past_only`: no new events.
  void Add(const std::shared_ptr<Watcher>& watcher, std::optional<WallTime> since = {},
           bool past_only = false);
  void Remove(const Watcher* watcher);
  // Returns the number of events so far, which is the number of the next event.
  std::uint64_t published() const { return forgotten_ + events_.size(); }
  // Visits the last `most` remembered events with a number from `after` on, oldest first.
  void Newest(std::uint64_t after, std::size_t most,
              const std::function<void(std::uint64_t number, const WatchedEvent& event)>& visit) const;
  void Publish(std::string_view type, std::string object, std::string message) {
    Publish(std::chrono::system_clock::now(), type, std::move(object), std::move(message));
  }
  void Publish(WallTime now, std::string_view type, std::string object, std::string message);

 private:
  std::deque<WatchedEvent> events_;  // Loop thread.
  std::uint64_t forgotten_ = 0;
  WallTime last_forgotten_{};
  std::mutex mutex_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace nd::service
