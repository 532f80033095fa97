// SPDX-License-Identifier: Apache-2.0
// Spreads what happens to everybody who watches, and remembers the newest of it for those who come later. A
// watcher that falls behind is told how many it missed.
//
// On the loop thread, so that a newcomer's past and future meet without a gap; watchers go on any thread.
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
#include <vector>

#include "daemon/service/time_text.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::service {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void Offer(const ndbroker::v1::WatchEvent& event) = 0;
  // After the last event that a reader of the past asked for.
  virtual void PastIsOver() {}
};

class WatchHub {
 public:
  static constexpr std::size_t kRemembered = 8192;

  // Everything from now on, and before that what is remembered from `since` on. The first event says how many
  // of that time may have been forgotten. `past_only`: no future.
  void Add(const std::shared_ptr<Watcher>& watcher, std::optional<WallTime> since = {},
           bool past_only = false);
  void Remove(const Watcher* watcher);
  // How many there ever were: the number of the next event.
  std::uint64_t published() const { return forgotten_ + events_.size(); }
  // Of the last `most` that are remembered, those with a number from `after` on, oldest first.
  void Newest(
      std::uint64_t after, std::size_t most,
      const std::function<void(std::uint64_t number, const ndbroker::v1::WatchEvent& event)>& visit) const;
  void Publish(std::string_view type, std::string_view object, std::string_view message) {
    Publish(std::chrono::system_clock::now(), type, object, message);
  }
  void Publish(WallTime now, std::string_view type, std::string_view object, std::string_view message);

 private:
  struct Event {
    WallTime time;
    std::string type, object, message;
  };
  static ndbroker::v1::WatchEvent Encode(const Event& event);

  std::deque<Event> events_;  // Loop thread.
  std::uint64_t forgotten_ = 0;
  WallTime last_forgotten_{};
  std::mutex mutex_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
};

}  // namespace nd::service
