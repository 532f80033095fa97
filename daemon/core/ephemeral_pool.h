// SPDX-License-Identifier: Apache-2.0
// The free ephemeral ports of one local address, least recently used first.
//
// A doubly linked list over the range: taking the next port, removing a given one and putting one back take
// constant time. The first round starts at a random port.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nd::core {

class EphemeralPool {
 public:
  // `first` <= `last`; `start` (modulo the size) is the offset of the first port to give out.
  EphemeralPool(std::uint16_t first, std::uint16_t last, std::uint64_t start);

  std::optional<std::uint16_t> Oldest() const;  // Does not remove it.
  void Remove(std::uint16_t port);              // Ignores ports outside the range and removed ones.
  void PutBack(std::uint16_t port);             // Ignores ports outside the range and present ones.
  bool Contains(std::uint16_t port) const;
  std::uint32_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kOut = 0xFFFFFFFFu;
  bool InRange(std::uint16_t port) const { return port >= first_ && port <= last_; }
  void Append(std::uint32_t node);

  std::uint16_t first_, last_;
  std::uint32_t size_ = 0;
  // Node n is port first_ + n; the node after the last one is the head. next_ kOut: not in the list.
  std::vector<std::uint32_t> next_, previous_;
};

}  // namespace nd::core
