// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/siphash.h"

#include <bit>
#include <cstddef>

namespace nd::state {
namespace {

std::uint64_t LittleEndian(const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
  return value;
}

struct State {
  std::uint64_t v0, v1, v2, v3;

  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
  void Absorb(std::uint64_t block) {
    v3 ^= block;
    Rounds(2);
    v0 ^= block;
  }
  std::uint64_t Sum() const { return v0 ^ v1 ^ v2 ^ v3; }
};

}  // namespace

std::array<std::uint8_t, 16> SipHash128(const HashKey& key, std::string_view text) {
  const std::uint64_t k0 = LittleEndian(key.data(), 8), k1 = LittleEndian(key.data() + 8, 8);
  State state{k0 ^ 0x736f6d6570736575U, k1 ^ 0x646f72616e646f6dU ^ 0xee, k0 ^ 0x6c7967656e657261U,
              k1 ^ 0x7465646279746573U};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) state.Absorb(LittleEndian(bytes + at, 8));
  state.Absorb(LittleEndian(bytes + whole, text.size() - whole) | std::uint64_t{text.size()} << 56);
  std::array<std::uint8_t, 16> out;
  const auto put = [&](std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) out[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
  };
  state.v2 ^= 0xee;
  state.Rounds(4);
  put(0, state.Sum());
  state.v1 ^= 0xdd;
  state.Rounds(4);
  put(8, state.Sum());
  return out;
}

}  // namespace nd::state
