// SPDX-License-Identifier: Apache-2.0
// A queue in one block of memory, for large elements: a std::deque allocates each element of 512 bytes or
// more by itself.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace nd {

// T has a default constructor. The place of an element that was taken keeps a moved-from T. One thread.
template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Requires i < size(). The oldest element has the index 0.
  T& operator[](std::size_t i) { return slots_[(first_ + i) & (slots_.size() - 1)]; }
  const T& operator[](std::size_t i) const { return slots_[(first_ + i) & (slots_.size() - 1)]; }

  void Push(T element) { Extend() = std::move(element); }
  // Adds an element, to be assigned to: it is a new or a moved-from T.
  T& Extend() {
    if (size_ == slots_.size()) Grow();
    return (*this)[size_++];
  }
  // Requires an element. Takes the oldest one.
  T Take() {
    T element = std::move((*this)[0]);
    Advance();
    return element;
  }
  // Requires an element. Destroys the oldest one.
  void Drop() {
    T& oldest = (*this)[0];
    std::destroy_at(&oldest);
    std::construct_at(&oldest);
    Advance();
  }

 private:
  static constexpr std::size_t kFirst = 4;  // Powers of two.
  static constexpr std::size_t kKept = 64;  // An empty queue keeps the memory of this many elements.

  void Advance() {
    first_ = (first_ + 1) & (slots_.size() - 1);
    if (--size_ == 0 && slots_.size() > kKept) std::vector<T>().swap(slots_);
  }
  void Grow() {
    std::vector<T> larger(slots_.empty() ? kFirst : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_.swap(larger);
    first_ = 0;
  }

  std::vector<T> slots_;  // Their number is a power of two, or 0.
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace nd
