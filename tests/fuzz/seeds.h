// SPDX-License-Identifier: Apache-2.0
// Makes the hand-written part of the corpora: real frames from the encoders of the project, and the named
// seeds of README.md.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace nd::fuzz {

class Seed {
 public:
  Seed& U8(unsigned value) { return Put(value, 1); }
  Seed& Little16(unsigned value) { return Put(value, 2); }
  Seed& Big16(unsigned value) { return U8(value >> 8 & 0xFF).U8(value & 0xFF); }
  Seed& Big32(std::uint32_t value) { return Big16(value >> 16).Big16(value & 0xFFFF); }
  Seed& Text(std::string_view text) { return Bytes(std::as_bytes(std::span(text))); }
  Seed& Bytes(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) bytes_.push_back(std::to_integer<std::uint8_t>(byte));
    return *this;
  }
  Seed& Bytes(std::span<const std::uint8_t> bytes) { return Bytes(std::as_bytes(bytes)); }
  Seed& Zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  template <typename T>
  Seed& Raw(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return Bytes(std::as_bytes(std::span(&value, 1)));
  }
  std::vector<std::uint8_t>& bytes() { return bytes_; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  Seed& Put(std::uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    return *this;
  }
  std::vector<std::uint8_t> bytes_;
};

// Writes one file for each seed: DIRECTORY/TARGET/NAME.
class SeedWriter {
 public:
  explicit SeedWriter(std::filesystem::path directory) : directory_(std::move(directory)) {}
  void Add(std::string_view target, std::string_view name, const Seed& seed);
  std::size_t count() const { return count_; }

 private:
  std::filesystem::path directory_;
  std::size_t count_ = 0;
};

void AddHandshakeSeeds(SeedWriter& writer);
void AddFrameSeeds(SeedWriter& writer);
void AddRdmapSeeds(SeedWriter& writer);
void AddRingSeeds(SeedWriter& writer);
void AddSessionSeeds(SeedWriter& writer);
void AddSessionCodecSeeds(SeedWriter& writer);
void AddControlSeeds(SeedWriter& writer);

}  // namespace nd::fuzz
