// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/wire/terminate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft::wire {
namespace {

using Payload = std::vector<std::byte>;

Payload Encode(const Terminate& terminate, TerminateLayout layout) {
  std::array<std::byte, kMaxTerminateSize> bytes;
  const std::size_t size = EncodeTerminate(terminate, layout, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

Terminate Full() {
  Terminate terminate;
  terminate.fault = fault::kAccessRights;
  terminate.segment_length = 46;
  DdpHeader header;
  header.last = true;
  header.ulp_control = 0x41;
  header.queue = 1;
  header.msn = 9;
  terminate.ddp_header = header;
  terminate.read_request = ReadRequest{1, 2, 3, 4, 5};
  return terminate;
}

void ExpectSame(const Terminate& a, const Terminate& b) {
  EXPECT_EQ(a.fault, b.fault);
  EXPECT_EQ(a.segment_length, b.segment_length);
  EXPECT_EQ(a.ddp_header, b.ddp_header);
  EXPECT_EQ(a.read_request, b.read_request);
}

TEST(Terminate, HasTheLayoutOfTheRfc) {
  const Payload bytes = Encode(Full(), TerminateLayout::kRfc);
  ASSERT_EQ(bytes.size(), kMaxTerminateSize);
  const std::uint8_t head[] = {0x01, 0x02, 0xE0, 0x00, 0x00, 46, 0x41, 0x41};
  EXPECT_TRUE(std::equal(std::begin(head), std::end(head), bytes.begin(),
                         [](std::uint8_t a, std::byte b) { return a == ToInt(b); }));
  Terminate llp;
  llp.fault = fault::kInsufficientIrd;
  const std::uint8_t expected[] = {0x20, 0x06, 0, 0};
  EXPECT_TRUE(std::ranges::equal(Encode(llp, TerminateLayout::kRfc), AsBytes(expected)));
}

TEST(Terminate, SiwLayoutIsMirrored) {
  const Payload bytes = Encode(Full(), TerminateLayout::kSiw);
  EXPECT_EQ(ToInt(bytes[0]), 0x10);
  EXPECT_EQ(ToInt(bytes[1]), 0x02);
  EXPECT_EQ(ToInt(bytes[2]), 0x07);
  EXPECT_EQ(DetectTerminateLayout(bytes), TerminateLayout::kSiw);
  EXPECT_EQ(DetectTerminateLayout(Encode(Full(), TerminateLayout::kRfc)), TerminateLayout::kRfc);
}

TEST(Terminate, RoundTripsEveryCombinationOfParts) {
  for (const TerminateLayout layout : {TerminateLayout::kRfc, TerminateLayout::kSiw}) {
    for (unsigned parts = 0; parts < 8; ++parts) {
      Terminate sent = Full();
      if ((parts & 1) == 0) sent.segment_length.reset();
      if ((parts & 2) == 0) sent.ddp_header.reset();
      if ((parts & 4) == 0 || (parts & 2) == 0) sent.read_request.reset();
      const std::optional<Terminate> got = DecodeTerminate(Encode(sent, layout), layout);
      ASSERT_TRUE(got);
      ExpectSame(*got, sent);
    }
  }
}

TEST(Terminate, EveryTruncationKeepsTheFault) {
  for (const TerminateLayout layout : {TerminateLayout::kRfc, TerminateLayout::kSiw}) {
    const Payload bytes = Encode(Full(), layout);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::optional<Terminate> got = DecodeTerminate(ByteSpan(bytes).first(size), layout);
      ASSERT_EQ(got.has_value(), size >= 4) << size;
      if (!got) continue;
      EXPECT_EQ(got->fault, fault::kAccessRights);
      EXPECT_EQ(got->segment_length.has_value(), size >= 6);
      EXPECT_EQ(got->ddp_header.has_value(), size >= 24);
      EXPECT_FALSE(got->read_request);
    }
  }
}

TEST(Terminate, ArbitraryBytesAreDecodedWithinBounds) {
  for (unsigned seed = 0; seed < 4096; ++seed) {
    Payload bytes(seed % 80);
    std::uint32_t x = seed * 2654435761u + 1;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>((x = x * 1664525u + 1013904223u) >> 24);
    const TerminateLayout layout = DetectTerminateLayout(bytes);
    const std::optional<Terminate> got = DecodeTerminate(bytes, layout);
    EXPECT_EQ(got.has_value(), bytes.size() >= 4);
    if (got) {
      EXPECT_FALSE(Describe(got->fault).empty());
    }
  }
}

TEST(Terminate, QuotesTheOffendingSegment) {
  Segment segment;
  segment.opcode = Opcode::kReadRequest;
  segment.msn = 3;
  Payload ulpdu(kUntaggedHeaderSize + kReadRequestSize);
  EncodeSegmentHeader(segment, ulpdu.data());
  const ReadRequest request{1, 2, 3, 4, 5};
  EncodeReadRequest(request, &ulpdu[kUntaggedHeaderSize]);
  const Terminate about = MakeTerminate(fault::kBounds, ulpdu);
  EXPECT_EQ(about.segment_length, 46);
  ASSERT_TRUE(about.ddp_header);
  EXPECT_EQ(about.ddp_header->msn, 3u);
  EXPECT_EQ(about.read_request, request);
  // A DDP fault concerns the segment and not the request in it; an MPA fault neither.
  EXPECT_FALSE(MakeTerminate(fault::kNoBuffer, ulpdu).read_request);
  EXPECT_FALSE(MakeTerminate(fault::kCrc, ulpdu).ddp_header);
  EXPECT_FALSE(MakeTerminate(fault::kLength, {}).segment_length);
  EXPECT_FALSE(MakeTerminate(fault::kRdmapVersion, ByteSpan(ulpdu).first(5)).ddp_header);
}

TEST(Terminate, LayoutIsThatOfTheBitsOfTheThirdByte) {
  const auto layout = [](unsigned bits, std::size_t size = kMinTerminateSize) {
    Payload payload(size);
    if (size > 2) payload[2] = static_cast<std::byte>(bits);
    return DetectTerminateLayout(payload);
  };
  for (const unsigned bit : {0x01u, 0x02u, 0x04u}) EXPECT_EQ(layout(bit), TerminateLayout::kSiw) << bit;
  for (const unsigned bit : {0x80u, 0x40u, 0x20u}) EXPECT_EQ(layout(bit), TerminateLayout::kRfc) << bit;
  EXPECT_EQ(layout(0), TerminateLayout::kRfc);
  EXPECT_EQ(layout(0x81), TerminateLayout::kRfc) << "bits of both";
  EXPECT_EQ(layout(0x07, 3), TerminateLayout::kRfc) << "too short for a Terminate message";
}

TEST(Terminate, TakesAReadRequestOnlyBehindItsHeader) {
  for (const bool tagged : {true, false}) {
    Terminate sent = Full();
    sent.ddp_header->tagged = tagged;
    if (!tagged) sent.ddp_header->ulp_control = 0x43;  // Send.
    const auto got = DecodeTerminate(Encode(sent, TerminateLayout::kRfc), TerminateLayout::kRfc);
    ASSERT_TRUE(got && got->ddp_header);
    EXPECT_FALSE(got->read_request);
  }
}

TEST(Terminate, QuotesTheHeaderOfTheLargestUlpdu) {
  Payload ulpdu(kMaxUlpdu);
  EncodeSegmentHeader(Segment{}, ulpdu.data());
  EXPECT_EQ(MakeTerminate(fault::kBounds, ulpdu).segment_length, kMaxUlpdu);
}

TEST(Terminate, QuotesAHeaderWhoseOffsetWraps) {
  Segment tagged;
  tagged.opcode = Opcode::kWrite;
  tagged.offset = ~std::uint64_t{0};
  Payload write(kTaggedHeaderSize + 8);
  EncodeSegmentHeader(tagged, write.data());
  EXPECT_EQ(MakeTerminate(fault::kDdpOffsetWrap, write).segment_length, write.size());
  Segment untagged;
  untagged.message_offset = 0xFFFFFFFF;
  Payload send(kUntaggedHeaderSize + 8);
  EncodeSegmentHeader(untagged, send.data());
  EXPECT_EQ(MakeTerminate(fault::kMessageOffset, send).segment_length, send.size());
  // No more than a ULPDU is quoted, and only a whole Read Request.
  EXPECT_FALSE(MakeTerminate(fault::kBounds, Payload(kMaxUlpdu + 1)).ddp_header);
  Segment read;
  read.opcode = Opcode::kReadRequest;
  Payload longer(kUntaggedHeaderSize + kReadRequestSize + 1);
  EncodeSegmentHeader(read, longer.data());
  EXPECT_TRUE(MakeTerminate(fault::kMessageTooLong, longer).ddp_header);
  EXPECT_FALSE(MakeTerminate(fault::kOperationUnspecified, longer).read_request);
  EXPECT_FALSE(MakeTerminate(fault::kBounds, send).read_request);
}

TEST(Fault, EveryKnownTripleHasAName) {
  std::size_t known = 0;
  for (unsigned layer = 0; layer < 16; ++layer) {
    for (unsigned type = 0; type < 16; ++type) {
      for (unsigned code = 0; code < 256; ++code) {
        const Fault fault{static_cast<Layer>(layer), static_cast<std::uint8_t>(type),
                          static_cast<std::uint8_t>(code)};
        const std::string text = Describe(fault);
        EXPECT_EQ(text.find("code ") != std::string::npos, !IsKnown(fault)) << text;
        if (IsKnown(fault)) ++known;
      }
    }
  }
  EXPECT_EQ(known, 33u);
  EXPECT_EQ(Describe(fault::kNoBuffer), "DDP untagged buffer error: invalid MSN, no buffer available");
  EXPECT_EQ(Describe(Fault{static_cast<Layer>(7), 9, 3}), "layer 7 error type 9: code 3");
  // The first type of each layer that has no name.
  EXPECT_EQ(Describe(Fault{Layer::kRdmap, 3, 0}), "layer 0 error type 3: code 0");
  EXPECT_EQ(Describe(Fault{Layer::kDdp, 3, 0}), "layer 1 error type 3: code 0");
  EXPECT_EQ(Describe(Fault{Layer::kLlp, 1, 0}), "layer 2 error type 1: code 0");
}

}  // namespace
}  // namespace nd::provider::soft::wire
