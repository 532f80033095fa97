// SPDX-License-Identifier: Apache-2.0
// Data that says where it belongs. Each aligned 8 bytes of a stream are a bijective mix of seed, stream and
// position, so a wrong byte can be asked where it came from: lost, repeated, moved or of another stream.
// Any thread.
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

// The bytes [offset, offset + to.size()) of the stream.
void Fill(const Stream& stream, std::uint64_t offset, std::span<std::byte> to);

// Nothing when they are exactly those bytes; otherwise one sentence that names the first wrong one.
std::optional<std::string> Check(const Stream& stream, std::uint64_t offset, std::span<const std::byte> data);

// Bytes that nobody may touch.
inline constexpr std::byte kCanary{0xEE};
std::optional<std::string> CheckCanary(std::span<const std::byte> data);

// A small generator that both sides of a test run in step. Not for secrets.
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
