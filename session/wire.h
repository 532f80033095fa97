// SPDX-License-Identifier: Apache-2.0
// The encoding of protobuf's wire format, without messages: numbers, byte strings, nested lengths.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nd::session {

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kGroupStart = 3,
  kGroupEnd = 4,
  kFixed32 = 5
};

struct WireTag {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
};

// Writes to memory that has room for all that is written.
class WireWriter {
 public:
  // Room for a tag and for a number or a length.
  static constexpr std::size_t kHead = 5 + 10;

  explicit WireWriter(std::byte* to) : to_(to) {}

  void Tag(std::uint32_t number, WireType type) {
    Varint(std::uint64_t{number} << 3 | static_cast<std::uint64_t>(type));
  }
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) *to_++ = static_cast<std::byte>(value | 0x80);
    *to_++ = static_cast<std::byte>(value);
  }
  // With its length in front.
  void LengthDelimited(std::span<const std::byte> bytes) {
    Varint(bytes.size());
    to_ = std::copy(bytes.begin(), bytes.end(), to_);
  }
  // Everything between both calls becomes one length-delimited value. Begin() returns its first byte, for
  // End().
  std::byte* Begin() { return ++to_; }
  void End(std::byte* first) {
    const auto length = static_cast<std::size_t>(to_ - first);
    if (length >= 0x80) return EndLong(first, length);
    first[-1] = static_cast<std::byte>(length);
  }
  // Behind the last byte.
  std::byte* end() const { return to_; }

 private:
  void EndLong(std::byte* first, std::size_t length);

  std::byte* to_;
};

// Reads a span from front to back and never beyond it. A function that returns false has set error(), a
// clause such as "its length goes beyond the end"; nothing may be read afterwards.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }
  // Refuses field number 0, an end of a group, and wire types that do not exist.
  bool Tag(WireTag* tag) {
    if (rest_.empty() || rest_[0] >= std::byte{0x80}) return LongTag(tag);
    const auto byte = std::to_integer<std::uint32_t>(rest_[0]);
    *tag = {byte >> 3, static_cast<WireType>(byte & 7)};
    if (tag->number == 0 || tag->type > WireType::kFixed32 || tag->type == WireType::kGroupEnd) {
      return LongTag(tag);
    }
    rest_ = rest_.subspan(1);
    return true;
  }
  bool Varint(std::uint64_t* value) {
    if (rest_.empty() || rest_[0] >= std::byte{0x80}) return LongVarint(value);
    *value = std::to_integer<std::uint64_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return true;
  }
  bool LengthDelimited(std::span<const std::byte>* bytes) {
    if (rest_.empty() || rest_[0] >= std::byte{0x80}) return LongLengthDelimited(bytes);
    const auto length = std::to_integer<std::size_t>(rest_[0]);
    if (length >= rest_.size()) return LongLengthDelimited(bytes);
    *bytes = rest_.subspan(1, length);
    rest_ = rest_.subspan(1 + length);
    return true;
  }
  // Skips the value of an unknown field. `depth` messages are around it already.
  bool Skip(WireTag tag, int depth);
  const char* error() const { return error_; }

 private:
  // The same for every case; those above are only the short ones.
  bool LongVarint(std::uint64_t* value);
  bool LongTag(WireTag* tag);
  bool LongLengthDelimited(std::span<const std::byte>* bytes);
  bool AnyTag(WireTag* tag);
  bool SkipGroup(std::uint32_t number, int depth);
  bool SkipBytes(std::size_t count);
  bool Fail(const char* error) {
    error_ = error;
    return false;
  }

  std::span<const std::byte> rest_;
  const char* error_ = "";
};

// No overlong forms, no surrogates, nothing above U+10FFFF: what protobuf demands of a string.
bool IsUtf8(std::string_view text);

}  // namespace nd::session
