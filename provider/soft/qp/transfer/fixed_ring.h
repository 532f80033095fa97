// SPDX-License-Identifier: Apache-2.0
// A queue of at most `capacity` entries, allocated once.
//
// Thread rule: as its owner's. Positions count entries and wrap; the number of slots is a power of two, so
// that a wrap of the position does not move the next slot.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nd::provider::soft {

template <typename Entry, typename Position = std::uint32_t>
class FixedRing {
 public:
  explicit FixedRing(Position capacity)
      : capacity_(capacity), slots_(std::bit_ceil<std::size_t>(capacity)), mask_(slots_.size() - 1) {}

  bool empty() const { return head_ == tail_; }
  bool full() const { return size() >= capacity_; }
  Position size() const { return static_cast<Position>(head_ - tail_); }
  // The number of entries that were ever pushed.
  Position pushed() const { return head_; }

  // The caller checks full().
  Entry& Push(const Entry& entry) {
    Entry& slot = slots_[head_ & mask_];
    slot = entry;
    ++head_;
    return slot;
  }
  Entry& oldest() { return slots_[tail_ & mask_]; }
  // The slot keeps its value until the next Push.
  Entry& Pop() { return slots_[tail_++ & mask_]; }

  template <typename Function>
  void ForEach(Function&& function) {
    for (Position at = tail_; at != head_; ++at) function(slots_[at & mask_]);
  }

 private:
  Position capacity_, head_ = 0, tail_ = 0;
  std::vector<Entry> slots_;
  std::size_t mask_;
};

}  // namespace nd::provider::soft
