// SPDX-License-Identifier: Apache-2.0
// The MPA parser is the remote attack surface of the broker, so each frame has one short function.
#include "provider/soft/wire/mpa.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "provider/soft/wire/check.h"
#include "provider/soft/wire/crc32c.h"

namespace nd::provider::soft::wire {
namespace {

constexpr std::size_t kKeySize = 16;
constexpr char kRequestKey[] = "MPA ID Req Frame";
constexpr char kReplyKey[] = "MPA ID Rep Frame";
static_assert(sizeof kRequestKey == kKeySize + 1 && sizeof kReplyKey == kKeySize + 1);

constexpr std::uint8_t kMarkers = 0x80, kCrc = 0x40, kReject = 0x20, kEnhanced = 0x10;
constexpr std::uint16_t kLimitMask = 0x3FFF, kHighBit = 0x8000, kSecondBit = 0x4000;

const char* KeyOf(MpaKind kind) {
  return kind == MpaKind::kRequest ? kRequestKey : kReplyKey;
}

MpaDecoded Bad(MpaFault fault) {
  MpaDecoded bad;
  bad.verdict = Verdict::kBad;
  bad.fault = fault;
  return bad;
}

MpaDecoded NeedMore(std::size_t need) {
  MpaDecoded more;
  more.need = need;
  return more;
}

EnhancedWords DecodeWords(const std::byte* from) {
  const auto first = LoadBig<std::uint16_t>(from);
  const auto second = LoadBig<std::uint16_t>(from + 2);
  EnhancedWords words;
  words.peer_to_peer = (first & kHighBit) != 0;
  words.rtr_send = (first & kSecondBit) != 0;
  words.ird = first & kLimitMask;
  words.rtr_write = (second & kHighBit) != 0;
  words.rtr_read = (second & kSecondBit) != 0;
  words.ord = second & kLimitMask;
  return words;
}

void EncodeWords(const EnhancedWords& words, std::byte* to) {
  const unsigned first =
      (words.peer_to_peer ? kHighBit : 0u) | (words.rtr_send ? kSecondBit : 0u) | words.ird;
  const unsigned second = (words.rtr_write ? kHighBit : 0u) | (words.rtr_read ? kSecondBit : 0u) | words.ord;
  StoreBig(to, static_cast<std::uint16_t>(first));
  StoreBig(to + 2, static_cast<std::uint16_t>(second));
}

}  // namespace

std::string_view Name(MpaFault fault) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "no fault", "the key is not that of the expected MPA frame", "the MPA revision is neither 1 nor 2",
      "more than 512 bytes of private data are announced",
      "an enhanced frame has no room for its read limits"};
  return kNames[static_cast<std::size_t>(fault)];
}

MpaDecoded DecodeMpa(MpaKind kind, ByteSpan bytes) {
  const std::size_t key_bytes = std::min(bytes.size(), kKeySize);
  if (key_bytes != 0 && std::memcmp(bytes.data(), KeyOf(kind), key_bytes) != 0) return Bad(MpaFault::kBadKey);
  if (bytes.size() > 17) {
    const std::uint8_t revision = ToInt(bytes[17]);
    if (revision != 1 && revision != 2) return Bad(MpaFault::kBadRevision);
  }
  // The high byte of the length alone may exceed the limit.
  if (bytes.size() > 18 && ToInt(bytes[18]) > kMaxMpaPrivateData >> 8)
    return Bad(MpaFault::kPrivateDataTooLong);
  if (bytes.size() < kMpaHeaderSize) return NeedMore(kMpaHeaderSize - bytes.size());

  const std::uint8_t flags = ToInt(bytes[16]);
  const std::size_t length = LoadBig<std::uint16_t>(&bytes[18]);
  MpaDecoded result;
  MpaFrame& frame = result.frame;
  frame.kind = kind;
  frame.revision = ToInt(bytes[17]);
  frame.markers = (flags & kMarkers) != 0;
  frame.crc = (flags & kCrc) != 0;
  frame.rejected = kind == MpaKind::kReply && (flags & kReject) != 0;
  frame.enhanced = frame.revision == 2 && (flags & kEnhanced) != 0;
  if (length > kMaxMpaPrivateData) return Bad(MpaFault::kPrivateDataTooLong);
  if (frame.enhanced && length < kEnhancedWordsSize) return Bad(MpaFault::kEnhancedTooShort);
  if (bytes.size() - kMpaHeaderSize < length) return NeedMore(length - (bytes.size() - kMpaHeaderSize));

  ByteSpan data = bytes.subspan(kMpaHeaderSize, length);
  if (frame.enhanced) {
    frame.words = DecodeWords(data.data());
    data = data.subspan(kEnhancedWordsSize);
  }
  frame.private_data = data;
  result.verdict = Verdict::kComplete;
  result.size = kMpaHeaderSize + length;
  return result;
}

std::size_t MpaFrameSize(const MpaFrame& frame) {
  return kMpaHeaderSize + (frame.enhanced ? kEnhancedWordsSize : 0) + frame.private_data.size();
}

std::size_t EncodeMpa(const MpaFrame& frame, MutableByteSpan to) {
  const std::size_t size = MpaFrameSize(frame);
  Check(frame.revision == 2 || (frame.revision == 1 && !frame.enhanced), "MPA revision 1, or 2 if enhanced");
  Check(size <= kMaxMpaFrame && size <= to.size(), "an MPA frame fits its buffer and 512 bytes of data");
  Check(frame.words.ird <= kLimitMask && frame.words.ord <= kLimitMask, "read limits fit 14 bits");
  const unsigned flags = (frame.markers ? kMarkers : 0u) | (frame.crc ? kCrc : 0u) |
                         (frame.rejected ? kReject : 0u) | (frame.enhanced ? kEnhanced : 0u);
  std::memcpy(to.data(), KeyOf(frame.kind), kKeySize);
  to[16] = static_cast<std::byte>(flags);
  to[17] = static_cast<std::byte>(frame.revision);
  StoreBig(&to[18], static_cast<std::uint16_t>(size - kMpaHeaderSize));
  std::byte* data = to.data() + kMpaHeaderSize;
  if (frame.enhanced) {
    EncodeWords(frame.words, data);
    data += kEnhancedWordsSize;
  }
  if (!frame.private_data.empty()) std::memcpy(data, frame.private_data.data(), frame.private_data.size());
  return size;
}

FpduDecoded DecodeFpdu(ByteSpan bytes, bool crc) {
  FpduDecoded result;
  if (bytes.size() < kFpduHeaderSize) {
    result.need = kFpduHeaderSize - bytes.size();
    return result;
  }
  const std::size_t ulpdu = LoadBig<std::uint16_t>(bytes.data());
  result.size = FpduSize(ulpdu);
  if (bytes.size() < result.size) {
    result.need = result.size - bytes.size();
    return result;
  }
  const std::size_t covered = result.size - kFpduCrcSize;
  result.verdict = Verdict::kComplete;
  result.crc_ok = !crc || Crc32c(bytes.first(covered)) == LoadLittle32(&bytes[covered]);
  result.ulpdu = bytes.subspan(kFpduHeaderSize, ulpdu);
  return result;
}

std::size_t SealFpdu(MutableByteSpan frame, std::size_t ulpdu, bool crc) {
  Check(ulpdu <= kMaxUlpdu && FpduSize(ulpdu) <= frame.size(),
        "an FPDU fits its buffer and the length field");
  const std::size_t covered = FpduSize(ulpdu) - kFpduCrcSize;
  StoreBig(frame.data(), static_cast<std::uint16_t>(ulpdu));
  std::fill(frame.begin() + static_cast<std::ptrdiff_t>(kFpduHeaderSize + ulpdu),
            frame.begin() + static_cast<std::ptrdiff_t>(covered), std::byte{0});
  StoreLittle32(&frame[covered], crc ? Crc32c(frame.first(covered)) : 0);
  return FpduSize(ulpdu);
}

FpduTrailer MakeFpduTrailer(std::size_t ulpdu, std::uint32_t crc_so_far, bool crc) {
  FpduTrailer trailer{};
  const std::size_t pad = FpduPad(ulpdu);
  trailer.size = pad + kFpduCrcSize;
  const std::uint32_t value = crc ? ExtendCrc32c(crc_so_far, ByteSpan(trailer.bytes, pad)) : 0;
  StoreLittle32(trailer.bytes + pad, value);
  return trailer;
}

}  // namespace nd::provider::soft::wire
