// SPDX-License-Identifier: Apache-2.0
// For the programs of this folder: the contents of messages and areas, and the card by which one end tells
// the other about its area. Pure.
//
// nd_pair and nd_exchange speak the same protocol, so that each of them is a peer of the other. The private
// data of Connect is kHello, that of Accept kAnswer. In each round both ends send kBatch messages; the one
// that connected is sender 1. Then both send a card, write their stamps into the area of the other, send a
// card again, read the area of the other back, and send a third card, after which each may leave.
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

inline constexpr std::size_t kBatch = 16, kCards = 3, kArea = 1 << 20;
inline constexpr char kHello[] = "from the active side", kAnswer[] = "from the passive side";

}  // namespace nd::stamped
