// SPDX-License-Identifier: Apache-2.0
// Sessions that have ended and are not destroyed yet. Destroying one closes descriptors and gives memory
// back, so that a thousand clients that end together would hold the loop up for a long time if all went in
// one step. One thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

namespace nd::service {

template <typename Session>
class EndedSessions {
 public:
  // The bounds of one step: the sessions that it looks at, and those that it destroys.
  static constexpr std::size_t kLookedAt = 64, kDestroyed = 8;

  void Add(std::unique_ptr<Session> session) { sessions_.push_back(std::move(session)); }
  bool empty() const { return sessions_.empty(); }
  auto begin() const { return sessions_.begin(); }
  auto end() const { return sessions_.end(); }

  // One step: destroys sessions for which `in_use` returns false. The others go behind all that were not
  // looked at, so that as many steps as needed reach every session.
  template <typename InUse>
  void Forget(InUse in_use) {
    std::size_t looked_at = 0, destroyed = 0;
    for (const std::size_t all = sessions_.size();
         looked_at < all && looked_at < kLookedAt && destroyed < kDestroyed; ++looked_at) {
      std::unique_ptr<Session> session = std::move(sessions_.front());
      sessions_.pop_front();
      if (in_use(*session)) {
        sessions_.push_back(std::move(session));
      } else {
        ++destroyed;
      }
    }
  }

 private:
  std::deque<std::unique_ptr<Session>> sessions_;
};

}  // namespace nd::service
