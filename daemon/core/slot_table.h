// SPDX-License-Identifier: Apache-2.0
// A table of values with generational handles: a handle of an erased value never finds a later one.
//
// A slot is used again first-in first-out, so that generations wrap (after 2^24 uses) as late as possible;
// a slot whose generations are used up is retired.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/core/ids.h"

namespace nd::core {

template <typename T>
class SlotTable {
 public:
  static constexpr std::uint32_t kMaxSlots = 1u << 24;

  explicit SlotTable(std::uint32_t epoch, std::uint32_t max_slots = kMaxSlots)
      : epoch_(epoch & 0xFFFFu), max_slots_(max_slots) {}

  // Returns a null handle when the table is full.
  Handle Insert(T value) {
    std::uint32_t slot;
    if (!free_.empty()) {
      slot = free_.front();
      free_.pop_front();
    } else if (slots_.size() < max_slots_) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      return {};
    }
    slots_[slot].value.emplace(std::move(value));
    ++size_;
    return Handle::Make(epoch_, slot, slots_[slot].generation);
  }

  T* Find(Handle handle) {
    if (handle.epoch() != epoch_ || handle.slot() >= slots_.size()) return nullptr;
    Slot& slot = slots_[handle.slot()];
    if (slot.generation != handle.generation() || !slot.value) return nullptr;
    return &*slot.value;
  }
  const T* Find(Handle handle) const { return const_cast<SlotTable*>(this)->Find(handle); }

  // Returns false for an invalid handle.
  bool Erase(Handle handle) {
    if (Find(handle) == nullptr) return false;
    Slot& slot = slots_[handle.slot()];
    slot.value.reset();
    --size_;
    if (slot.generation < kLastGeneration) {
      ++slot.generation;
      free_.push_back(handle.slot());
    }
    return true;
  }

  std::uint32_t size() const { return size_; }
  // How many values Insert() still takes.
  std::uint32_t room() const {
    return static_cast<std::uint32_t>(free_.size()) + max_slots_ - static_cast<std::uint32_t>(slots_.size());
  }

  // In order of slots.
  template <typename F>
  void ForEach(F&& f) const {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].value) f(Handle::Make(epoch_, i, slots_[i].generation), *slots_[i].value);
    }
  }

 private:
  static constexpr std::uint32_t kLastGeneration = 0xFFFFFFu;
  struct Slot {
    std::uint32_t generation = 1;  // Never 0, so that no handle is 0 even in epoch 0.
    std::optional<T> value;
  };
  std::uint32_t epoch_, max_slots_, size_ = 0;
  std::vector<Slot> slots_;
  std::deque<std::uint32_t> free_;
};

}  // namespace nd::core
