// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding are inverse: for encoded values, and for accepted bytes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "tests/property/wire_gen.h"

namespace nd::provider::soft {
namespace {

using wire::Verdict;

bool SameFrame(const wire::MpaFrame& a, const wire::MpaFrame& b) {
  return a.kind == b.kind && a.markers == b.markers && a.crc == b.crc && a.rejected == b.rejected &&
         a.enhanced == b.enhanced && a.revision == b.revision && a.words == b.words &&
         Copy(a.private_data) == Copy(b.private_data);
}

RC_GTEST_PROP(Mpa, DecodeOfEncodeIsTheFrame, ()) {
  const auto kind = *rc::gen::element(wire::MpaKind::kRequest, wire::MpaKind::kReply);
  OwnedFrame owned = AnyMpaFrame(kind);
  const Raw bytes = owned.Encoded();
  owned.frame.private_data = SpanOf(owned.data);
  const wire::MpaDecoded decoded = wire::DecodeMpa(kind, SpanOf(bytes));
  RC_ASSERT(decoded.verdict == Verdict::kComplete);
  RC_ASSERT(decoded.size == bytes.size());
  RC_ASSERT(SameFrame(decoded.frame, owned.frame));
}

// Reserved flags and the R of a request are ignored and not kept; everything else is kept.
RC_GTEST_PROP(Mpa, EncodeOfAcceptedBytesIsTheBytes, ()) {
  const auto kind = *rc::gen::element(wire::MpaKind::kRequest, wire::MpaKind::kReply);
  Raw bytes = AnyMpaFrame(kind).Encoded();
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] ^= *rc::gen::arbitrary<std::uint8_t>();
  const Raw more = AnyBytes(8);
  bytes.insert(bytes.end(), more.begin(), more.end());
  const wire::MpaDecoded decoded = wire::DecodeMpa(kind, SpanOf(bytes));
  RC_PRE(decoded.verdict == Verdict::kComplete);
  Raw again(wire::MpaFrameSize(decoded.frame));
  wire::EncodeMpa(decoded.frame, std::as_writable_bytes(std::span(again)));
  RC_ASSERT(again.size() == decoded.size);
  Raw known(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(decoded.size));
  const unsigned kept = 0xC0u | (kind == wire::MpaKind::kReply ? 0x20u : 0u) | (known[17] == 2 ? 0x10u : 0u);
  known[16] &= static_cast<std::uint8_t>(kept);
  RC_ASSERT(again == known);
}

RC_GTEST_PROP(Fpdu, DecodeOfSealIsTheUlpdu, (bool crc)) {
  const Raw ulpdu = AnyBytes(500);
  const Raw frame = Fpdu(ulpdu, crc);
  const wire::FpduDecoded decoded = wire::DecodeFpdu(SpanOf(frame), crc);
  RC_ASSERT(decoded.verdict == Verdict::kComplete);
  RC_ASSERT(decoded.crc_ok);
  RC_ASSERT(decoded.size == frame.size());
  RC_ASSERT(Copy(decoded.ulpdu) == ulpdu);
  RC_ASSERT(frame.size() % 4 == 0u);
}

RC_GTEST_PROP(Fpdu, AnyFlippedBitIsCaught, ()) {
  const Raw ulpdu = AnyBytes(200);
  Raw frame = Fpdu(ulpdu, true);
  // Not in the length, which would make another frame.
  const auto bit = *rc::gen::inRange<std::size_t>(16, frame.size() * 8);
  frame[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
  const wire::FpduDecoded decoded = wire::DecodeFpdu(SpanOf(frame), true);
  RC_ASSERT(decoded.verdict == Verdict::kComplete);
  RC_ASSERT(!decoded.crc_ok);
}

RC_GTEST_PROP(Fpdu, ATrailerMadeFromPiecesIsTheSealedOne, (bool crc)) {
  const Raw ulpdu = AnyBytes(300);
  const Raw frame = Fpdu(ulpdu, crc);
  const wire::ByteSpan whole = SpanOf(frame);
  std::uint32_t sum = wire::Crc32c(whole.first(wire::kFpduHeaderSize));
  std::size_t at = wire::kFpduHeaderSize;
  for (const std::size_t cut : AnyCuts(ulpdu.size())) {
    const std::size_t to = wire::kFpduHeaderSize + cut;
    sum = wire::ExtendCrc32c(sum, whole.subspan(at, to - at));
    at = to;
  }
  const wire::FpduTrailer trailer = wire::MakeFpduTrailer(ulpdu.size(), sum, crc);
  RC_ASSERT(Copy(wire::ByteSpan(trailer.bytes, trailer.size)) == Copy(whole.subspan(at)));
}

RC_GTEST_PROP(Ddp, DecodeOfEncodeIsTheHeader, ()) {
  wire::DdpHeader header;
  header.tagged = *rc::gen::arbitrary<bool>();
  header.last = *rc::gen::arbitrary<bool>();
  header.ulp_control = *rc::gen::arbitrary<std::uint8_t>();
  if (header.tagged) {
    header.stag = *rc::gen::arbitrary<std::uint32_t>();
    header.offset = *rc::gen::arbitrary<std::uint64_t>();
  } else {
    header.ulp_word = *rc::gen::arbitrary<std::uint32_t>();
    header.queue = *rc::gen::arbitrary<std::uint32_t>();
    header.msn = *rc::gen::arbitrary<std::uint32_t>();
    header.message_offset = *rc::gen::arbitrary<std::uint32_t>();
  }
  std::array<std::byte, wire::kUntaggedHeaderSize> bytes;
  const std::size_t size = wire::EncodeDdp(header, bytes.data());
  RC_ASSERT(size == header.size());
  wire::DdpHeader again;
  RC_ASSERT(!wire::DecodeDdp(wire::ByteSpan(bytes).first(size), &again));
  RC_ASSERT(again == header);
}

RC_GTEST_PROP(Rdmap, DecodeOfEncodeIsTheSegment, ()) {
  const wire::Segment segment = AnySegment();
  const Raw ulpdu = AnyUlpdu(segment);
  wire::Segment again;
  const auto fault = wire::DecodeSegment(SpanOf(ulpdu), &again);
  const std::size_t payload = ulpdu.size() - wire::HeaderSize(segment.opcode);
  const bool tagged = wire::RuleOf(segment.opcode).tagged;
  const bool wraps =
      tagged ? segment.offset > UINT64_MAX - payload : segment.message_offset > UINT32_MAX - payload;
  RC_ASSERT(fault.has_value() == wraps);
  if (fault) return;
  RC_ASSERT(again.opcode == segment.opcode);
  RC_ASSERT(again.last == segment.last);
  RC_ASSERT(again.payload.size() == payload);
  RC_ASSERT(again.stag == segment.stag);
  RC_ASSERT(again.offset == segment.offset);
  RC_ASSERT(again.msn == segment.msn);
  RC_ASSERT(again.message_offset == segment.message_offset);
  RC_ASSERT(again.invalidate_stag == segment.invalidate_stag);
}

// Accepted bytes, encoded again, decode to the same segment.
RC_GTEST_PROP(Rdmap, EncodeOfAcceptedBytesMeansTheSame, ()) {
  Raw ulpdu = AnyUlpdu(AnySegment());
  ulpdu[*rc::gen::inRange<std::size_t>(0, ulpdu.size())] ^= *rc::gen::arbitrary<std::uint8_t>();
  wire::Segment segment;
  RC_PRE(!wire::DecodeSegment(SpanOf(ulpdu), &segment));
  std::array<std::byte, wire::kMaxSegmentHeader> header;
  const std::size_t size = wire::EncodeSegmentHeader(segment, header.data());
  Raw again = Copy(wire::ByteSpan(header).first(size));
  const Raw payload = Copy(segment.payload);
  again.insert(again.end(), payload.begin(), payload.end());
  wire::Segment second;
  RC_ASSERT(!wire::DecodeSegment(SpanOf(again), &second));
  RC_ASSERT(second.opcode == segment.opcode);
  RC_ASSERT(second.last == segment.last);
  RC_ASSERT(second.msn == segment.msn);
  RC_ASSERT(second.message_offset == segment.message_offset);
  RC_ASSERT(second.stag == segment.stag);
  RC_ASSERT(second.offset == segment.offset);
  RC_ASSERT(Copy(second.payload) == payload);
}

RC_GTEST_PROP(Rdmap, AHeaderAloneIsJudgedAsTheWholeSegment, ()) {
  Raw ulpdu = *rc::gen::arbitrary<bool>() ? AnyUlpdu(AnySegment()) : AnyBytes(80);
  if (!ulpdu.empty()) {
    ulpdu[*rc::gen::inRange<std::size_t>(0, ulpdu.size())] ^= *rc::gen::arbitrary<std::uint8_t>();
  }
  wire::Segment whole, front;
  std::size_t header = 0;
  const auto fault = wire::DecodeSegment(SpanOf(ulpdu), &whole);
  const auto early = wire::DecodeSegmentHeader(
      SpanOf(ulpdu).first(std::min(ulpdu.size(), wire::kMaxSegmentHeader)), ulpdu.size(), &front, &header);
  RC_ASSERT(fault == early);
  if (!fault) RC_ASSERT(whole.payload.size() == ulpdu.size() - header);
}

RC_GTEST_PROP(ReadRequest, RoundTrip, ()) {
  wire::ReadRequest request;
  request.sink_stag = *rc::gen::arbitrary<std::uint32_t>();
  request.sink_offset = *rc::gen::arbitrary<std::uint64_t>();
  request.size = *rc::gen::arbitrary<std::uint32_t>();
  request.source_stag = *rc::gen::arbitrary<std::uint32_t>();
  request.source_offset = *rc::gen::arbitrary<std::uint64_t>();
  std::array<std::byte, wire::kReadRequestSize> bytes;
  wire::EncodeReadRequest(request, bytes.data());
  RC_ASSERT(wire::DecodeReadRequest(bytes) == request);
}

RC_GTEST_PROP(Terminate, DecodeOfEncodeIsTheMessageInBothLayouts, ()) {
  wire::Terminate said;
  said.fault.layer = static_cast<wire::Layer>(*rc::gen::inRange<int>(0, 3));
  said.fault.type = *rc::gen::inRange<std::uint8_t>(0, 16);
  said.fault.code = *rc::gen::arbitrary<std::uint8_t>();
  if (*rc::gen::arbitrary<bool>()) said.segment_length = *rc::gen::arbitrary<std::uint16_t>();
  if (*rc::gen::arbitrary<bool>()) {
    wire::DdpHeader header;
    header.tagged = *rc::gen::arbitrary<bool>();
    header.last = *rc::gen::arbitrary<bool>();
    header.ulp_control = *rc::gen::element<std::uint8_t>(0x40, 0x41, 0x43, 0x47);
    (header.tagged ? header.stag : header.msn) = *rc::gen::arbitrary<std::uint32_t>();
    said.ddp_header = header;
    if (!header.tagged && header.ulp_control == 0x41 && *rc::gen::arbitrary<bool>()) {
      said.read_request.emplace();
      said.read_request->size = *rc::gen::arbitrary<std::uint32_t>();
    }
  }
  const auto layout = *rc::gen::element(wire::TerminateLayout::kRfc, wire::TerminateLayout::kSiw);
  std::array<std::byte, wire::kMaxTerminateSize> bytes;
  const std::size_t size = wire::EncodeTerminate(said, layout, bytes);
  const wire::ByteSpan payload = wire::ByteSpan(bytes).first(size);
  const auto heard = wire::DecodeTerminate(payload, layout);
  RC_ASSERT(heard.has_value());
  RC_ASSERT(heard->fault == said.fault);
  RC_ASSERT(heard->segment_length == said.segment_length);
  RC_ASSERT(heard->ddp_header == said.ddp_header);
  RC_ASSERT(heard->read_request == said.read_request);
  const bool plain = !said.segment_length && !said.ddp_header;
  RC_ASSERT(plain || wire::DetectTerminateLayout(payload) == layout);
}

RC_GTEST_PROP(Terminate, AnythingIsReadWithoutHarm, ()) {
  const Raw bytes = AnyBytes(90);
  const auto heard = wire::DecodeTerminate(SpanOf(bytes), wire::DetectTerminateLayout(SpanOf(bytes)));
  RC_ASSERT(heard.has_value() == (bytes.size() >= wire::kMinTerminateSize));
  if (heard) static_cast<void>(wire::Describe(heard->fault));
  const wire::Terminate made = wire::MakeTerminate(wire::fault::kBounds, SpanOf(bytes));
  std::array<std::byte, wire::kMaxTerminateSize> out;
  const std::size_t size = wire::EncodeTerminate(made, wire::TerminateLayout::kRfc, out);
  RC_ASSERT(wire::DecodeTerminate(wire::ByteSpan(out).first(size), wire::TerminateLayout::kRfc)->fault ==
            wire::fault::kBounds);
}

RC_GTEST_PROP(NdbHeader, RoundTrip, ()) {
  wire::NdbHeader header;
  header.reason = static_cast<Detail>(*rc::gen::inRange<int>(0, 18));
  header.flags = *rc::gen::arbitrary<std::uint16_t>();
  header.source_port = *rc::gen::arbitrary<std::uint16_t>();
  header.destination_port = *rc::gen::arbitrary<std::uint16_t>();
  Raw bytes(wire::kNdbHeaderSize);
  wire::EncodeNdbHeader(header, std::as_writable_bytes(std::span(bytes)).data());
  const Raw more = AnyBytes(20);
  bytes.insert(bytes.end(), more.begin(), more.end());
  const auto decoded = wire::DecodeNdbHeader(SpanOf(bytes));
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == header);
}

}  // namespace
}  // namespace nd::provider::soft
