// SPDX-License-Identifier: Apache-2.0
// Counts descriptors on their way to clients: those held for a client, and those sent and not acknowledged.
//
// The kernel charges descriptors that are sent and not received to the broker, so a client that receives
// nothing could block every hand-over. A merely stopped client may be late as long as there is room. Loop
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace nd::service {

class InFlight {
 public:
  // `descriptors`: the limit of the process. A quarter of them may be in flight.
  explicit InFlight(std::uint64_t descriptors) : most_(descriptors / 4) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // Counts descriptors of a user during its lifetime, which must not exceed that of the InFlight.
  class Charge {
   public:
    Charge() = default;
    // A hand-over may have no descriptors.
    Charge(InFlight& owner, std::uint32_t uid, std::size_t count)
        : owner_(count == 0 ? nullptr : &owner), uid_(uid), count_(count) {
      if (count == 0) return;
      owner.all_ += count;
      owner.by_user_[uid] += count;
    }
    Charge(Charge&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), uid_(other.uid_), count_(other.count_) {}
    Charge& operator=(Charge&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(uid_, other.uid_);
      std::swap(count_, other.count_);
      return *this;
    }
    ~Charge() {
      if (owner_ == nullptr) return;
      owner_->all_ -= count_;
      const auto it = owner_->by_user_.find(uid_);
      if ((it->second -= count_) == 0) owner_->by_user_.erase(it);
    }

   private:
    InFlight* owner_ = nullptr;
    std::uint32_t uid_ = 0;
    std::size_t count_ = 0;
  };

  // Returns true when this user must not be late: more than half of the room is taken, or an eighth by this
  // user.
  bool Crowded(std::uint32_t uid) const {
    const auto it = by_user_.find(uid);
    return all_ > most_ / 2 || (it != by_user_.end() && it->second > most_ / 8);
  }
  std::size_t all() const { return all_; }

 private:
  const std::uint64_t most_;
  std::size_t all_ = 0;
  std::map<std::uint32_t, std::size_t> by_user_;
};

}  // namespace nd::service
