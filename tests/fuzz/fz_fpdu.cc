// SPDX-License-Identifier: Apache-2.0
// FPDUs and segment headers from a stream in arbitrary pieces: the verdict does not depend on the pieces, the
// lengths are right, and decoded values are encoded to the same bytes.
//
// Input: flags (1: no CRC), then the stream.
#include <cstring>

#include "provider/soft/wire/crc32c.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "tests/fuzz/fpdu_tools.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

using namespace provider::soft;

// Reads exactly the requested number of bytes, like a receiver that takes no byte of the next frame.
std::size_t SizeByNeeds(std::span<const std::uint8_t> stream, bool crc) {
  std::size_t have = 0;
  for (;;) {
    const std::vector<std::byte> seen = Exact(stream.first(have));
    const wire::FpduDecoded frame = wire::DecodeFpdu(seen, crc);
    if (frame.verdict == wire::Verdict::kComplete) {
      Require(frame.need == 0 && frame.size == have, "asking for need takes exactly one frame");
      return have;
    }
    Require(frame.verdict == wire::Verdict::kNeedMore, "no length of an FPDU is wrong by itself");
    Require(frame.need != 0, "an incomplete frame needs more");
    if (frame.need > stream.size() - have) return 0;
    have += frame.need;
  }
}

void CheckSegment(std::span<const std::uint8_t> bytes) {
  const std::vector<std::byte> ulpdu = Exact(bytes);
  Header expected;
  const auto right = JudgeSegment(bytes, &expected);
  wire::Segment segment;
  const auto fault = wire::DecodeSegment(ulpdu, &segment);
  Require(fault == right, "the codec judges a segment as the reference does");
  if (fault) Require(wire::IsKnown(*fault) && !wire::Describe(*fault).empty(), "a fault has a name");

  // From the header alone.
  const std::size_t there = std::min(bytes.size(), wire::kMaxSegmentHeader);
  const std::vector<std::byte> front = Exact(bytes.first(there));
  wire::Segment from_header;
  std::size_t header_size = 0;
  Require(wire::DecodeSegmentHeader(front, bytes.size(), &from_header, &header_size) == right,
          "a header says the same without its payload");
  if (right) return;
  Require(header_size == expected.size && segment.payload.size() == bytes.size() - expected.size,
          "the payload begins behind the header");
  Require(static_cast<unsigned>(segment.opcode) == expected.opcode && segment.last == expected.last &&
              segment.stag == expected.stag && segment.offset == expected.offset &&
              segment.msn == expected.msn && segment.message_offset == expected.message_offset,
          "the fields are those of the reference");
  if (wire::Invalidates(segment.opcode)) {
    Require(segment.invalidate_stag == expected.invalidate, "the STag to invalidate is read");
  }
  std::byte again[wire::kMaxSegmentHeader];
  Require(wire::EncodeSegmentHeader(segment, again) == header_size, "a header has the size that it had");
  wire::Segment twice;
  std::size_t size_again = 0;
  Require(!wire::DecodeSegmentHeader(wire::ByteSpan(again, header_size), bytes.size(), &twice, &size_again),
          "what is encoded decodes");
  Require(twice.opcode == segment.opcode && twice.last == segment.last && twice.stag == segment.stag &&
              twice.offset == segment.offset && twice.msn == segment.msn &&
              twice.message_offset == segment.message_offset,
          "a header survives being written and read");
  if (segment.opcode == wire::Opcode::kReadRequest) {
    const wire::ReadRequest request = wire::DecodeReadRequest(segment.payload);
    std::byte body[wire::kReadRequestSize];
    wire::EncodeReadRequest(request, body);
    Require(std::memcmp(body, segment.payload.data(), sizeof body) == 0, "a Read Request survives too");
  }
}

void CheckFrame(const wire::FpduDecoded& frame, wire::ByteSpan bytes, bool crc) {
  const std::size_t ulpdu = frame.ulpdu.size();
  std::vector<std::byte> sealed(frame.size);
  std::memcpy(sealed.data() + wire::kFpduHeaderSize, frame.ulpdu.data(), ulpdu);
  Require(wire::SealFpdu(sealed, ulpdu, crc) == frame.size, "a sealed frame has the decoded size");
  const std::size_t covered = frame.size - wire::kFpduCrcSize;
  const bool zero_pad = std::memcmp(sealed.data(), bytes.data(), covered) == 0;
  if (zero_pad && crc) {
    Require(frame.crc_ok == (std::memcmp(sealed.data(), bytes.data(), frame.size) == 0),
            "the CRC is good exactly when it is the one that we would write");
  }
  // The trailer of a frame that is in pieces.
  std::uint32_t so_far = wire::Crc32c(wire::ByteSpan(sealed).first(wire::kFpduHeaderSize));
  const std::size_t middle = ulpdu / 3;
  so_far = wire::ExtendCrc32c(so_far, frame.ulpdu.first(middle));
  so_far = wire::ExtendCrc32c(so_far, frame.ulpdu.subspan(middle));
  const wire::FpduTrailer trailer = wire::MakeFpduTrailer(ulpdu, so_far, crc);
  Require(trailer.size == frame.size - wire::kFpduHeaderSize - ulpdu &&
              std::memcmp(trailer.bytes, sealed.data() + frame.size - trailer.size, trailer.size) == 0,
          "frames are the same in one piece and in several");
}

void CheckCrcs(std::span<const std::uint8_t> bytes) {
  const std::uint32_t right = PlainCrc32c(bytes);
  for (const wire::CrcVariant variant : wire::kCrcVariants) {
    if (!wire::Supported(variant)) continue;
    Require(wire::ExtendCrc32cWith(variant, 0, wire::AsBytes(bytes)) == right, wire::Name(variant));
  }
}

}  // namespace
}  // namespace nd::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  // One input in eight keeps its wrong CRC.
  if (size > 1 && seed % 8 != 0) nd::fuzz::RepairCrcs({data + 1, size - 1});
  return size;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  Input input(data, size);
  const bool crc = (input.Number() & 1) == 0;
  CheckCrcs(input.rest());
  while (!input.empty()) {
    const std::size_t by_needs = SizeByNeeds(input.rest(), crc);
    const std::vector<std::byte> rest = Exact(input.rest());
    const wire::FpduDecoded frame = wire::DecodeFpdu(rest, crc);
    Require((frame.verdict == wire::Verdict::kComplete) == (by_needs != 0) &&
                (by_needs == 0 || frame.size == by_needs),
            "a frame is the same in one look and in many");
    // A receiver may read the header of an incomplete frame.
    if (by_needs == 0) break;
    const auto bytes = input.Take(frame.size);
    CheckFrame(frame, wire::AsBytes(bytes), crc);
    CheckSegment(bytes.subspan(2, frame.ulpdu.size()));
  }
  return 0;
}
