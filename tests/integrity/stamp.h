// SPDX-License-Identifier: Apache-2.0
// Data that carries its position. Each aligned 8 bytes of a stream are a bijective mix of seed, stream and
// position. So the origin of a wrong byte can be computed: lost, repeated, moved or of another stream. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace nd::integrity {

struct Stream {
  std::uint64_t seed = 0;
  std::uint16_t number = 0;
};

// Fills `to` with the bytes [offset, offset + to.size()) of the stream.
void Fill(const Stream& stream, std::uint64_t offset, std::span<std::byte> to);

// Returns no value when `data` has exactly those bytes, otherwise a sentence that names the first wrong byte.
std::optional<std::string> Check(const Stream& stream, std::uint64_t offset, std::span<const std::byte> data);

// Bytes that must not change.
inline constexpr std::byte kCanary{0xEE};
std::optional<std::string> CheckCanary(std::span<const std::byte> data);

// A small random generator that both sides of a test run in step. Not for secrets.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();
  // 0 <= result < bound.
  std::uint32_t Below(std::uint32_t bound) { return static_cast<std::uint32_t>(Next() % bound); }
  bool OneIn(std::uint32_t n) { return Below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace nd::integrity
