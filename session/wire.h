// SPDX-License-Identifier: Apache-2.0
// The encoding of protobuf's wire format, without messages: numbers, byte strings, nested lengths.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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

// Appends to a buffer.
class WireWriter {
 public:
  explicit WireWriter(std::vector<std::byte>* out) : out_(out) {}

  void Tag(std::uint32_t number, WireType type) {
    Varint(std::uint64_t{number} << 3 | static_cast<std::uint64_t>(type));
  }
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_->push_back(static_cast<std::byte>(value | 0x80));
    out_->push_back(static_cast<std::byte>(value));
  }
  // With its length in front.
  void LengthDelimited(std::span<const std::byte> bytes);
  // Everything between both calls becomes one length-delimited value. Begin() returns the mark for End().
  std::size_t Begin();
  void End(std::size_t mark);

 private:
  std::vector<std::byte>* out_;
};

// Reads a span from front to back and never beyond it. A function that returns false has set error(), a
// clause such as "its length goes beyond the end"; nothing may be read afterwards.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }
  // Refuses field number 0, an end of a group, and wire types that do not exist.
  bool Tag(WireTag* tag);
  bool Varint(std::uint64_t* value) {
    if (rest_.empty() || rest_[0] >= std::byte{0x80}) return LongVarint(value);
    *value = std::to_integer<std::uint64_t>(rest_[0]);
    rest_ = rest_.subspan(1);
    return true;
  }
  bool LengthDelimited(std::span<const std::byte>* bytes);
  // Skips the value of an unknown field. `depth` messages are around it already.
  bool Skip(WireTag tag, int depth);
  const char* error() const { return error_; }

 private:
  bool LongVarint(std::uint64_t* value);
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
