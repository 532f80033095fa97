// SPDX-License-Identifier: Apache-2.0
// For the programs of this folder: the contents of messages and areas, and the card by which one end tells
// the other about its area. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nd::stamped {

// Each byte depends on its sender, its message and its place.
inline std::byte Stamp(unsigned sender, std::size_t message, std::size_t at) {
  return static_cast<std::byte>(sender * 101 + message * 31 + at * 7 + (at >> 8));
}
inline constexpr std::size_t kLongest = 8192;
inline std::size_t LengthOf(std::size_t message) {
  return message * 997 % kLongest + 1;
}

struct Card {
  std::uint64_t address;
  std::uint32_t token;
};

}  // namespace nd::stamped
