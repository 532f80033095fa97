// SPDX-License-Identifier: Apache-2.0
// The only source of randomness of a simulation. Every draw is part of the run, so their order must not
// change.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "daemon/core/prng.h"

namespace nd::sim {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : prng_(seed) {}
  std::uint64_t Next() { return prng_.Next(); }
  // Returns a number from 0 to bound-1; 0 when bound is 0.
  std::uint32_t Below(std::uint32_t bound) { return bound == 0 ? 0 : prng_.Below(bound); }
  std::uint32_t Between(std::uint32_t low, std::uint32_t high) { return low + Below(high - low + 1); }
  bool Chance(std::uint32_t per_mille) { return Below(1000) < per_mille; }
  Duration Micros(std::uint32_t low, std::uint32_t high) {
    return std::chrono::microseconds(Between(low, high));
  }
  Duration Millis(std::uint32_t low, std::uint32_t high) {
    return std::chrono::milliseconds(Between(low, high));
  }
  template <typename Container>
  auto& Pick(Container& from) {
    return from[Below(static_cast<std::uint32_t>(from.size()))];
  }

 private:
  core::Prng prng_;
};

// FNV-1a, 64 bits: the same on every machine and build.
class Hash {
 public:
  void Add(std::string_view bytes) {
    for (const char c : bytes) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace nd::sim
