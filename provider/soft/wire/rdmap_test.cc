// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/wire/rdmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "provider/soft/wire/ddp.h"

namespace nd::provider::soft::wire {
namespace {

constexpr std::uint64_t kTop = ~std::uint64_t{0};

std::vector<std::byte> Encode(const Segment& segment, std::size_t payload) {
  std::vector<std::byte> bytes(kMaxSegmentHeader + payload, std::byte{0xCD});
  bytes.resize(EncodeSegmentHeader(segment, bytes.data()) + payload);
  return bytes;
}

std::size_t TypicalPayload(Opcode opcode) {
  return std::max<std::size_t>(RuleOf(opcode).min_payload, 0);
}

Segment Example(Opcode opcode) {
  Segment segment;
  segment.opcode = opcode;
  if (RuleOf(opcode).tagged) {
    segment.stag = 0x11223344;
    segment.offset = 0x8877665544332211;
  } else {
    segment.invalidate_stag = Invalidates(opcode) ? 0xA1A2A3A4 : 0;
    segment.msn = 0xFFFFFFFF;
    segment.message_offset = RuleOf(opcode).one_segment ? 0 : 0x01020304;
  }
  return segment;
}

constexpr Opcode kAll[] = {Opcode::kWrite,
                           Opcode::kReadRequest,
                           Opcode::kReadResponse,
                           Opcode::kSend,
                           Opcode::kSendInvalidate,
                           Opcode::kSendSolicited,
                           Opcode::kSendSolicitedInvalidate,
                           Opcode::kTerminate};

TEST(Rdmap, HasTheLayoutOfTheRfcs) {
  Segment send;
  send.msn = 1;
  const std::uint8_t expected_send[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
  EXPECT_TRUE(std::ranges::equal(Encode(send, 0), AsBytes(expected_send)));
  Segment write;
  write.opcode = Opcode::kWrite;
  write.last = false;
  write.stag = 0x1234;
  write.offset = 0x1000;
  const std::uint8_t expected_write[] = {0x81, 0x40, 0, 0, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0x10, 0};
  EXPECT_TRUE(std::ranges::equal(Encode(write, 0), AsBytes(expected_write)));
  EXPECT_EQ(ToInt(Encode(Example(Opcode::kTerminate), 4)[9]), 2);
  EXPECT_EQ(ToInt(Encode(Example(Opcode::kReadRequest), 28)[9]), 1);
}

TEST(Rdmap, RoundTripsEveryOpcode) {
  for (const Opcode opcode : kAll) {
    for (const bool last : {true, false}) {
      if (!last && RuleOf(opcode).one_segment) continue;
      Segment sent = Example(opcode);
      sent.last = last;
      const std::vector<std::byte> bytes =
          Encode(sent, TypicalPayload(opcode) + (RuleOf(opcode).one_segment ? 0 : 5));
      Segment got;
      ASSERT_FALSE(DecodeSegment(bytes, &got)) << RuleOf(opcode).name;
      EXPECT_EQ(got.opcode, opcode);
      EXPECT_EQ(got.last, last);
      EXPECT_EQ(got.stag, sent.stag);
      EXPECT_EQ(got.offset, sent.offset);
      EXPECT_EQ(got.invalidate_stag, sent.invalidate_stag);
      EXPECT_EQ(got.msn, sent.msn);
      EXPECT_EQ(got.message_offset, sent.message_offset);
      EXPECT_EQ(got.payload.size(), bytes.size() - HeaderSize(opcode));
    }
  }
}

TEST(Rdmap, EveryTruncationOfAHeaderIsALengthFault) {
  for (const Opcode opcode : kAll) {
    const std::vector<std::byte> bytes = Encode(Example(opcode), TypicalPayload(opcode));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      Segment segment;
      const std::optional<Fault> found = DecodeSegment(ByteSpan(bytes).first(size), &segment);
      ASSERT_TRUE(found) << RuleOf(opcode).name << " of " << size;
      EXPECT_EQ(*found, size < HeaderSize(opcode) ? fault::kLength : fault::kOperationUnspecified);
    }
  }
}

TEST(Rdmap, HeaderAloneGivesTheSameVerdictAsTheWholeSegment) {
  for (const Opcode opcode : kAll) {
    for (std::size_t payload = 0; payload < 70; ++payload) {
      const std::vector<std::byte> bytes = Encode(Example(opcode), payload);
      Segment whole, part;
      std::size_t header_size = 0;
      const std::size_t available = std::min(bytes.size(), kMaxSegmentHeader);
      EXPECT_EQ(DecodeSegment(bytes, &whole),
                DecodeSegmentHeader(ByteSpan(bytes).first(available), bytes.size(), &part, &header_size));
      EXPECT_EQ(header_size, HeaderSize(opcode));
    }
  }
}

TEST(Rdmap, JudgesLengthsFromZeroToTheLargestForEveryOpcode) {
  std::vector<std::byte> bytes(65535);
  for (const Opcode opcode : kAll) {
    EncodeSegmentHeader(Example(opcode), bytes.data());
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
      Segment segment;
      const std::optional<Fault> found = DecodeSegment(ByteSpan(bytes).first(size), &segment);
      const std::size_t header = HeaderSize(opcode);
      bool good = size >= header;
      if (opcode == Opcode::kReadRequest) good = size == header + 28;
      if (opcode == Opcode::kTerminate) good = size >= header + 4;
      ASSERT_EQ(!found.has_value(), good) << RuleOf(opcode).name << " " << size;
    }
  }
}

TEST(Rdmap, OnlyKnownVersionsOpcodesAndHeaderKindsPass) {
  // All control byte pairs against the table of RFC 5040 figure 2, written out again.
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      std::array<std::byte, 18 + 28> bytes{};
      bytes[0] = static_cast<std::byte>(first);
      bytes[1] = static_cast<std::byte>(second);
      const unsigned opcode = second & 0x0F;
      const bool tagged = (first & 0x80) != 0, last = (first & 0x40) != 0;
      if (!tagged) bytes[9] = static_cast<std::byte>(opcode == 1 ? 1 : opcode == 7 ? 2 : 0);
      std::optional<Fault> expected;
      if ((first & 3) != 1) {
        expected = tagged ? fault::kDdpTaggedVersion : fault::kDdpUntaggedVersion;
      } else if (second >> 6 != 1) {
        expected = fault::kRdmapVersion;
      } else if (opcode > 7 || tagged != (opcode == 0 || opcode == 2)) {
        expected = fault::kUnexpectedOpcode;
      } else if ((opcode == 1 || opcode == 7) && !last) {
        expected = fault::kOperationUnspecified;
      }
      Segment segment;
      ASSERT_EQ(DecodeSegment(bytes, &segment), expected) << first << " " << second;
    }
  }
}

TEST(Rdmap, QueueNumbersMustFitTheOpcode) {
  for (const Opcode opcode : kAll) {
    if (RuleOf(opcode).tagged) continue;
    for (const std::uint32_t queue : {0u, 1u, 2u, 3u, 0x100u, 0xFFFFFFFFu}) {
      std::vector<std::byte> bytes = Encode(Example(opcode), TypicalPayload(opcode));
      StoreBig(&bytes[6], queue);
      Segment segment;
      std::optional<Fault> expected;
      if (queue != RuleOf(opcode).queue)
        expected = queue > 2 ? fault::kInvalidQueue : fault::kUnexpectedOpcode;
      EXPECT_EQ(DecodeSegment(bytes, &segment), expected);
    }
  }
}

TEST(Rdmap, OneSegmentMessagesStartAtOffsetZero) {
  for (const Opcode opcode : {Opcode::kReadRequest, Opcode::kTerminate}) {
    Segment segment = Example(opcode);
    segment.message_offset = 1;
    const std::vector<std::byte> bytes = Encode(segment, TypicalPayload(opcode));
    EXPECT_EQ(DecodeSegment(bytes, &segment), fault::kMessageOffset);
  }
}

TEST(Rdmap, OffsetsMayReachTheEndOfTheirRangeButNotPassIt) {
  const auto tagged = [](std::uint64_t offset, std::size_t payload) {
    Segment segment = Example(Opcode::kWrite);
    segment.offset = offset;
    return DecodeSegment(Encode(segment, payload), &segment);
  };
  EXPECT_EQ(tagged(kTop, 0), std::nullopt);
  EXPECT_EQ(tagged(kTop, 1), std::nullopt);
  EXPECT_EQ(tagged(kTop, 2), fault::kDdpOffsetWrap);
  EXPECT_EQ(tagged(kTop - 99, 100), std::nullopt);
  EXPECT_EQ(tagged(kTop - 98, 100), fault::kDdpOffsetWrap);
  const auto untagged = [](std::uint32_t offset, std::size_t payload) {
    Segment segment = Example(Opcode::kSend);
    segment.message_offset = offset;
    return DecodeSegment(Encode(segment, payload), &segment);
  };
  EXPECT_EQ(untagged(0xFFFFFFFF, 0), std::nullopt);
  EXPECT_EQ(untagged(0xFFFFFFFF, 1), fault::kMessageOffset);
  EXPECT_EQ(untagged(0xFFFFFFFF - 100, 100), std::nullopt);
  EXPECT_EQ(untagged(0xFFFFFFFF - 99, 100), fault::kMessageOffset);
}

TEST(Rdmap, ReadRequestsRoundTripAndHaveTheLayoutOfTheRfc) {
  const ReadRequest request{0x01020304, 0x05060708090A0B0C, 0x0D0E0F10, 0x11121314, 0x15161718191A1B1C};
  std::array<std::byte, kReadRequestSize> bytes;
  EncodeReadRequest(request, bytes.data());
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(ToInt(bytes[i]), i + 1);
  EXPECT_EQ(DecodeReadRequest(bytes), request);
}

TEST(Ddp, IgnoresReservedBits) {
  std::vector<std::byte> bytes = Encode(Example(Opcode::kSend), 3);
  bytes[0] |= std::byte{0x3C};
  bytes[1] |= std::byte{0x30};
  Segment segment;
  EXPECT_FALSE(DecodeSegment(bytes, &segment));
}

// Two bytes are enough to say that the version is another.
TEST(Ddp, VersionIsJudgedBeforeTheLength) {
  const std::array<std::byte, 2> untagged = {std::byte{0x42}, std::byte{0x43}};
  const std::array<std::byte, 2> tagged = {std::byte{0xC2}, std::byte{0x40}};
  DdpHeader header;
  EXPECT_EQ(DecodeDdpPrefix(untagged, 2, &header), fault::kDdpUntaggedVersion);
  EXPECT_EQ(DecodeDdpPrefix(untagged, 100, &header), fault::kDdpUntaggedVersion);
  EXPECT_EQ(DecodeDdpPrefix(tagged, 2, &header), fault::kDdpTaggedVersion);
  EXPECT_EQ(DecodeDdpPrefix(ByteSpan(tagged).first(1), 100, &header), fault::kLength);
}

// As much as has arrived of a segment whose length is known.
TEST(Ddp, HeaderThatHasNotArrivedIsALengthFault) {
  Segment send;
  const std::vector<std::byte> bytes = Encode(send, 0);
  DdpHeader header;
  for (std::size_t arrived = 0; arrived < bytes.size(); ++arrived) {
    EXPECT_EQ(DecodeDdpPrefix(ByteSpan(bytes).first(arrived), 1000, &header), fault::kLength) << arrived;
  }
  EXPECT_FALSE(DecodeDdpPrefix(bytes, 1000, &header));
}

constexpr Opcode kExtensions[] = {Opcode::kImmediate,     Opcode::kImmediateSolicited,
                                  Opcode::kAtomicRequest, Opcode::kAtomicResponse,
                                  Opcode::kSendImmediate, Opcode::kSendSolicitedImmediate};

TEST(RdmapExtensions, AreUnknownWithoutTheAgreement) {
  for (const Opcode opcode : kExtensions) {
    Segment sent = Example(opcode);
    if (CarriesImmediate(opcode)) sent.invalidate_stag = 0x80000001;
    const std::vector<std::byte> bytes = Encode(sent, TypicalPayload(opcode));
    Segment got;
    EXPECT_EQ(DecodeSegment(bytes, &got), fault::kUnexpectedOpcode) << RuleOf(opcode).name;
    ASSERT_FALSE(DecodeSegment(bytes, &got, true)) << RuleOf(opcode).name;
    EXPECT_EQ(got.opcode, opcode);
    EXPECT_EQ(got.msn, sent.msn);
    EXPECT_EQ(got.message_offset, sent.message_offset);
    EXPECT_EQ(got.invalidate_stag, sent.invalidate_stag);
    EXPECT_EQ(ToInt(bytes[9]), RuleOf(opcode).queue);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(DecodeSegment(ByteSpan(bytes).first(size), &got, true),
                size < HeaderSize(opcode) ? fault::kLength : fault::kOperationUnspecified);
    }
  }
  // The others stay unknown.
  std::array<std::byte, 18> unknown{};
  for (const unsigned opcode : {14u, 15u}) {
    unknown[0] = std::byte{0x41};
    unknown[1] = static_cast<std::byte>(0x40 | opcode);
    Segment got;
    EXPECT_EQ(DecodeSegment(unknown, &got, true), fault::kUnexpectedOpcode);
  }
}

// RFC 7306: an atomic operation and Immediate Data are one segment each. Send with Immediate is of no RFC and
// has as many segments as a Send (docs/wire.md).
TEST(RdmapExtensions, OnlySendWithImmediateHasSeveralSegments) {
  for (const Opcode opcode : kExtensions) {
    const bool send = opcode == Opcode::kSendImmediate || opcode == Opcode::kSendSolicitedImmediate;
    Segment got, first = Example(opcode);
    first.message_offset = 0;
    first.last = false;
    const std::optional<Fault> of_first = DecodeSegment(Encode(first, TypicalPayload(opcode)), &got, true);
    Segment second = first;
    second.message_offset = 8;
    second.last = true;
    const std::optional<Fault> of_second = DecodeSegment(Encode(second, TypicalPayload(opcode)), &got, true);
    if (send) {
      EXPECT_FALSE(of_first || of_second) << RuleOf(opcode).name;
    } else {
      EXPECT_EQ(of_first, fault::kOperationUnspecified) << RuleOf(opcode).name;
      EXPECT_EQ(of_second, fault::kMessageOffset) << RuleOf(opcode).name;
    }
  }
  EXPECT_EQ(RuleOf(std::uint8_t{14}), nullptr);
  EXPECT_NE(RuleOf(std::uint8_t{13}), nullptr);
}

// The figures of RFC 7306, sections 5.1.1, 5.2.1 and 5.2.2.
TEST(RdmapExtensions, PayloadsHaveTheLayoutOfTheRfc) {
  std::byte immediate[kImmediateSize];
  EncodeImmediate({0x01020304, 0x05060708}, immediate);
  EXPECT_EQ(ToInt(immediate[0]), 1);
  EXPECT_EQ(ToInt(immediate[7]), 8);
  EXPECT_EQ(DecodeImmediate(immediate), (Immediate{0x01020304, 0x05060708}));

  AtomicRequest request{
      true, 0x11121314, 0x21222324, 0x3132333435363738, 0x4142434445464748, 0x5152535455565758};
  std::byte bytes[kAtomicRequestSize];
  EncodeAtomicRequest(request, bytes);
  EXPECT_EQ(ToInt(bytes[3]), 2);
  EXPECT_EQ(ToInt(bytes[4]), 0x11);
  EXPECT_EQ(ToInt(bytes[8]), 0x21);
  EXPECT_EQ(ToInt(bytes[12]), 0x31);
  EXPECT_EQ(ToInt(bytes[20]), 0x41);
  EXPECT_EQ(ToInt(bytes[28]), 0xFF);
  EXPECT_EQ(ToInt(bytes[36]), 0x51);
  EXPECT_EQ(ToInt(bytes[51]), 0xFF);
  EXPECT_EQ(DecodeAtomicRequest(bytes), request);
  // Masked operations and other codes are not offered.
  bytes[30] = std::byte{0};
  EXPECT_FALSE(DecodeAtomicRequest(bytes));
  request.compares = false;
  request.compare = 0;
  EncodeAtomicRequest(request, bytes);
  EXPECT_EQ(ToInt(bytes[3]), 0);
  EXPECT_EQ(DecodeAtomicRequest(bytes), request);
  bytes[35] = std::byte{1};
  EXPECT_FALSE(DecodeAtomicRequest(bytes));
  EncodeAtomicRequest(request, bytes);
  for (const int code : {1, 3, 15}) {
    bytes[3] = static_cast<std::byte>(code);
    EXPECT_FALSE(DecodeAtomicRequest(bytes));
  }

  std::byte response[kAtomicResponseSize];
  EncodeAtomicResponse({0x01020304, 0x0506070809101112}, response);
  EXPECT_EQ(ToInt(response[0]), 1);
  EXPECT_EQ(ToInt(response[11]), 0x12);
  EXPECT_EQ(DecodeAtomicResponse(response), (AtomicResponse{0x01020304, 0x0506070809101112}));
}

}  // namespace
}  // namespace nd::provider::soft::wire
