// SPDX-License-Identifier: Apache-2.0
#include "session/wire.h"

#include <array>
#include <cstring>

namespace nd::session {
namespace {

constexpr int kMaxDepth = 100;  // As protobuf's default.
constexpr std::uint64_t kMaxLength = 0x7FFFFFFF;

}  // namespace

void WireWriter::EndLong(std::byte* first, std::size_t length) {
  // The one byte that Begin() has left is too short for the length.
  std::size_t size = 1;
  for (std::size_t rest = length; rest >= 0x80; rest >>= 7) ++size;
  std::memmove(first - 1 + size, first, length);
  to_ = first - 1;
  Varint(length);
  to_ += length;
}

bool WireReader::LongVarint(std::uint64_t* value) {
  constexpr std::size_t kMost = 10;
  const std::size_t most = std::min(rest_.size(), kMost);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(rest_[i]);
    number |= (byte & 0x7F) << (7 * i);
    if (byte >= 0x80) continue;
    *value = number;
    rest_ = rest_.subspan(i + 1);
    return true;
  }
  return Fail(most < kMost ? "its number is cut off" : "its number has more than 10 bytes");
}

bool WireReader::AnyTag(WireTag* tag) {
  const std::size_t before = rest_.size();
  std::uint64_t value = 0;
  if (!Varint(&value)) return Fail("a field number is cut off or too long");
  if (before - rest_.size() > 5) return Fail("a field number has more than 5 bytes");
  const auto low = static_cast<std::uint32_t>(value);
  *tag = {low >> 3, static_cast<WireType>(low & 7)};
  if (tag->number == 0) return Fail("a field has the number 0");
  if (tag->type > WireType::kFixed32) return Fail("a field has a wire type that does not exist");
  return true;
}

bool WireReader::LongTag(WireTag* tag) {
  if (!AnyTag(tag)) return false;
  if (tag->type == WireType::kGroupEnd) return Fail("a group ends that has not begun");
  return true;
}

bool WireReader::LongLengthDelimited(std::span<const std::byte>* bytes) {
  const std::size_t before = rest_.size();
  std::uint64_t length = 0;
  if (!Varint(&length)) return Fail("its length is cut off or too long");
  if (before - rest_.size() > 5 || length > kMaxLength) return Fail("its length is above 2 GiB");
  if (length > rest_.size()) return Fail("its length goes beyond the end");
  *bytes = rest_.first(length);
  rest_ = rest_.subspan(length);
  return true;
}

bool WireReader::SkipBytes(std::size_t count) {
  if (count > rest_.size()) return Fail("its value is cut off");
  rest_ = rest_.subspan(count);
  return true;
}

bool WireReader::Skip(WireTag tag, int depth) {
  std::uint64_t number = 0;
  std::span<const std::byte> bytes;
  switch (tag.type) {
    case WireType::kVarint:
      return Varint(&number);
    case WireType::kFixed64:
      return SkipBytes(8);
    case WireType::kLengthDelimited:
      return LengthDelimited(&bytes);
    case WireType::kGroupStart:
      return SkipGroup(tag.number, depth);
    case WireType::kFixed32:
      return SkipBytes(4);
    case WireType::kGroupEnd:
      break;
  }
  return Fail("a group ends that has not begun");
}

bool WireReader::SkipGroup(std::uint32_t number, int depth) {
  std::array<std::uint32_t, kMaxDepth> open;
  std::size_t count = 0;
  const auto begin = [&](std::uint32_t group) {
    if (depth + static_cast<int>(count) >= kMaxDepth) return Fail("its groups are more than 100 deep");
    open[count++] = group;
    return true;
  };
  if (!begin(number)) return false;
  while (count != 0) {
    WireTag tag;
    if (!AnyTag(&tag)) return false;
    if (tag.type == WireType::kGroupEnd) {
      if (tag.number != open[--count]) return Fail("a group ends that has not begun");
    } else if (!(tag.type == WireType::kGroupStart ? begin(tag.number) : Skip(tag, depth))) {
      return false;
    }
  }
  return true;
}

bool IsUtf8(std::string_view text) {
  const auto at = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = at(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0) return false;
    // The second byte excludes overlong forms, surrogates, and values above the last code point.
    const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (at(i + 1) < least || at(i + 1) > most) return false;
    for (std::size_t k = 2; k < length; ++k) {
      if (at(i + k) < 0x80 || at(i + k) > 0xBF) return false;
    }
    i += length;
  }
  return true;
}

}  // namespace nd::session
