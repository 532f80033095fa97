// SPDX-License-Identifier: Apache-2.0
// Random frames of every kind, for the properties of the codecs.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "provider/soft/wire/crc32c.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/ndb_header.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {

using Raw = std::vector<std::uint8_t>;

inline wire::ByteSpan SpanOf(const Raw& raw) {
  return wire::AsBytes(raw);
}

inline Raw Copy(wire::ByteSpan span) {
  Raw raw;
  for (const std::byte byte : span) raw.push_back(wire::ToInt(byte));
  return raw;
}

inline Raw AnyBytes(std::size_t most) {
  const auto size = *rc::gen::inRange<std::size_t>(0, most + 1);
  return *rc::gen::container<Raw>(size, rc::gen::arbitrary<std::uint8_t>());
}

// An MPA frame and the bytes its private data points to.
struct OwnedFrame {
  wire::MpaFrame frame;
  Raw data;
  Raw Encoded() const {
    wire::MpaFrame with = frame;
    with.private_data = SpanOf(data);
    Raw bytes(wire::MpaFrameSize(with));
    wire::EncodeMpa(with, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
};

inline OwnedFrame AnyMpaFrame(wire::MpaKind kind) {
  OwnedFrame owned;
  wire::MpaFrame& frame = owned.frame;
  frame.kind = kind;
  frame.markers = *rc::gen::arbitrary<bool>();
  frame.crc = *rc::gen::arbitrary<bool>();
  frame.rejected = kind == wire::MpaKind::kReply && *rc::gen::arbitrary<bool>();
  frame.revision = *rc::gen::element<std::uint8_t>(1, 2);
  frame.enhanced = frame.revision == 2 && *rc::gen::arbitrary<bool>();
  if (frame.enhanced) {
    frame.words.peer_to_peer = *rc::gen::arbitrary<bool>();
    frame.words.rtr_send = *rc::gen::arbitrary<bool>();
    frame.words.rtr_write = *rc::gen::arbitrary<bool>();
    frame.words.rtr_read = *rc::gen::arbitrary<bool>();
    frame.words.ird = *rc::gen::inRange<std::uint16_t>(0, 16384);
    frame.words.ord = *rc::gen::inRange<std::uint16_t>(0, 16384);
  }
  owned.data = AnyBytes(wire::kMaxMpaPrivateData - (frame.enhanced ? wire::kEnhancedWordsSize : 0));
  return owned;
}

inline wire::Segment AnySegment() {
  wire::Segment segment;
  segment.opcode = static_cast<wire::Opcode>(*rc::gen::inRange<int>(0, 8));
  const wire::OpcodeRule& rule = wire::RuleOf(segment.opcode);
  segment.last = rule.one_segment || *rc::gen::arbitrary<bool>();
  if (rule.tagged) {
    segment.stag = *rc::gen::arbitrary<std::uint32_t>();
    segment.offset = *rc::gen::arbitrary<std::uint64_t>();
  } else {
    segment.msn = *rc::gen::arbitrary<std::uint32_t>();
    if (!rule.one_segment) segment.message_offset = *rc::gen::arbitrary<std::uint32_t>();
    if (wire::Invalidates(segment.opcode)) segment.invalidate_stag = *rc::gen::arbitrary<std::uint32_t>();
  }
  return segment;
}

// Encodes the segment with a payload that its opcode allows.
inline Raw AnyUlpdu(const wire::Segment& segment, std::size_t most = 200) {
  const wire::OpcodeRule& rule = wire::RuleOf(segment.opcode);
  const std::size_t high = std::min(rule.max_payload, std::max(most, rule.min_payload));
  const auto size = *rc::gen::inRange<std::size_t>(rule.min_payload, high + 1);
  Raw ulpdu(wire::kMaxSegmentHeader);
  ulpdu.resize(wire::EncodeSegmentHeader(segment, std::as_writable_bytes(std::span(ulpdu)).data()));
  for (std::size_t i = 0; i < size; ++i) ulpdu.push_back(static_cast<std::uint8_t>(i * 37 + size));
  return ulpdu;
}

inline Raw Fpdu(const Raw& ulpdu, bool crc) {
  Raw frame(wire::FpduSize(ulpdu.size()));
  std::copy(ulpdu.begin(), ulpdu.end(), frame.begin() + wire::kFpduHeaderSize);
  wire::SealFpdu(std::as_writable_bytes(std::span(frame)), ulpdu.size(), crc);
  return frame;
}

// The places at which a stream of `size` bytes is cut: growing positions; the last is `size`.
inline std::vector<std::size_t> AnyCuts(std::size_t size) {
  const auto pieces = *rc::gen::inRange<std::size_t>(0, 12);
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; i < pieces && size != 0; ++i)
    cuts.push_back(*rc::gen::inRange<std::size_t>(0, size));
  cuts.push_back(size);
  std::ranges::sort(cuts);
  return cuts;
}

}  // namespace nd::provider::soft
