// SPDX-License-Identifier: Apache-2.0
// Objects of verbs that other objects need, such as the protection domain of a region. Their destruction is
// refused (EBUSY) until those others are destroyed.
//
// Thread rule: any thread. Programs do not destroy an object while they make another one that needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace nd::verbs_lib {

// In the object that is needed.
class Holds {
 public:
  bool any() const { return count_.load() != 0; }

 private:
  friend class Hold;
  std::atomic<std::uint32_t> count_{0};
};

// In the object that needs it, and as long as it does.
class Hold {
 public:
  Hold() = default;
  explicit Hold(Holds* of) : of_(of) { ++of_->count_; }
  Hold(Hold&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  Hold& operator=(Hold&& other) noexcept {
    std::swap(of_, other.of_);
    return *this;
  }
  ~Hold() {
    if (of_ != nullptr) --of_->count_;
  }

 private:
  Holds* of_ = nullptr;
};

}  // namespace nd::verbs_lib
