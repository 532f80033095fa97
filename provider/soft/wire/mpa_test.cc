// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/wire/mpa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "provider/soft/wire/crc32c.h"

namespace nd::provider::soft::wire {
namespace {

using Frame = std::vector<std::byte>;

Frame Encode(const MpaFrame& frame) {
  Frame bytes(kMaxMpaFrame);
  bytes.resize(EncodeMpa(frame, bytes));
  return bytes;
}

MpaFrame Enhanced(MpaKind kind, ByteSpan data = {}) {
  MpaFrame frame;
  frame.kind = kind;
  frame.crc = true;
  frame.enhanced = true;
  frame.words = {true, false, true, true, 4, 8};
  frame.private_data = data;
  return frame;
}

void ExpectSame(const MpaFrame& a, const MpaFrame& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.markers, b.markers);
  EXPECT_EQ(a.crc, b.crc);
  EXPECT_EQ(a.rejected, b.rejected);
  EXPECT_EQ(a.enhanced, b.enhanced);
  EXPECT_EQ(a.revision, b.revision);
  EXPECT_EQ(a.words, b.words);
  EXPECT_TRUE(std::ranges::equal(a.private_data, b.private_data));
}

// The expected verdict for a frame, computed independently of the codec.
MpaFault Reference(const char* key, const Frame& bytes) {
  for (std::size_t i = 0; i < 16; ++i) {
    if (ToInt(bytes[i]) != static_cast<unsigned char>(key[i])) return MpaFault::kBadKey;
  }
  const unsigned revision = ToInt(bytes[17]), length = ToInt(bytes[18]) * 256u + ToInt(bytes[19]);
  if (revision != 1 && revision != 2) return MpaFault::kBadRevision;
  if (length > 512) return MpaFault::kPrivateDataTooLong;
  if (revision == 2 && (ToInt(bytes[16]) & 0x10) != 0 && length < 4) return MpaFault::kEnhancedTooShort;
  return MpaFault::kNone;
}

TEST(Mpa, HasTheLayoutOfTheRfcs) {
  MpaFrame request;
  request.enhanced = true;
  request.words.ird = 4;
  request.words.ord = 4;
  const Frame bytes = Encode(request);
  // As Linux siw sends it.
  const std::uint8_t expected[] = {0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52, 0x65, 0x71, 0x20, 0x46,
                                   0x72, 0x61, 0x6d, 0x65, 0x10, 0x02, 0x00, 0x04, 0x00, 0x04, 0x00, 0x04};
  EXPECT_TRUE(std::ranges::equal(bytes, AsBytes(expected)));
}

TEST(Mpa, PutsEachControlBitInItsPlace) {
  const auto words = [](EnhancedWords w) {
    MpaFrame frame = Enhanced(MpaKind::kReply);
    frame.words = w;
    const Frame bytes = Encode(frame);
    return std::pair(LoadBig<std::uint16_t>(&bytes[20]), LoadBig<std::uint16_t>(&bytes[22]));
  };
  using Pair = std::pair<std::uint16_t, std::uint16_t>;
  EXPECT_EQ(words({true, false, false, false, 1, 2}), Pair(0x8001, 0x0002));
  EXPECT_EQ(words({false, true, false, false, 1, 2}), Pair(0x4001, 0x0002));
  EXPECT_EQ(words({false, false, true, false, 1, 2}), Pair(0x0001, 0x8002));
  EXPECT_EQ(words({false, false, false, true, 0x3FFF, 0x3FFF}), Pair(0x3FFF, 0x7FFF));
}

TEST(Mpa, PutsEachFlagInItsPlace) {
  const auto flags = [](bool markers, bool crc, bool rejected, bool enhanced) {
    MpaFrame frame;
    frame.kind = MpaKind::kReply;
    frame.markers = markers;
    frame.crc = crc;
    frame.rejected = rejected;
    frame.enhanced = enhanced;
    return ToInt(Encode(frame)[16]);
  };
  EXPECT_EQ(flags(true, false, false, false), 0x80);
  EXPECT_EQ(flags(false, true, false, false), 0x40);
  EXPECT_EQ(flags(false, false, true, false), 0x20);
  EXPECT_EQ(flags(false, false, false, true), 0x10);
}

TEST(Mpa, RoundTripsEveryCombinationOfFlags) {
  const std::string data = "private";
  for (unsigned bits = 0; bits < 128; ++bits) {
    MpaFrame frame;
    frame.kind = (bits & 1) != 0 ? MpaKind::kReply : MpaKind::kRequest;
    frame.markers = (bits & 2) != 0;
    frame.crc = (bits & 4) != 0;
    frame.rejected = (bits & 8) != 0 && frame.kind == MpaKind::kReply;
    frame.revision = (bits & 16) != 0 ? 2 : 1;
    frame.enhanced = frame.revision == 2 && (bits & 32) != 0;
    if (frame.enhanced) frame.words = {true, false, true, false, 16383, 0};
    if ((bits & 64) != 0) frame.private_data = std::as_bytes(std::span(data));
    const Frame bytes = Encode(frame);
    const MpaDecoded decoded = DecodeMpa(frame.kind, bytes);
    ASSERT_EQ(decoded.verdict, Verdict::kComplete);
    EXPECT_EQ(decoded.size, bytes.size());
    EXPECT_EQ(decoded.need, 0u);
    ExpectSame(decoded.frame, frame);
  }
}

TEST(Mpa, AsksForExactlyTheMissingBytesAtEveryCut) {
  const Frame data(240, std::byte{7});
  for (const std::size_t size : {0u, 1u, 240u}) {
    const Frame bytes = Encode(Enhanced(MpaKind::kRequest, ByteSpan(data).first(size)));
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      const MpaDecoded decoded = DecodeMpa(MpaKind::kRequest, ByteSpan(bytes).first(cut));
      ASSERT_EQ(decoded.verdict, Verdict::kNeedMore) << cut;
      EXPECT_EQ(decoded.need, (cut < 20 ? 20 : bytes.size()) - cut) << cut;
    }
  }
}

TEST(Mpa, DoesNotReadBeyondTheFrame) {
  Frame bytes = Encode(Enhanced(MpaKind::kReply));
  const std::size_t size = bytes.size();
  bytes.resize(size + 100, std::byte{0xEE});
  const MpaDecoded decoded = DecodeMpa(MpaKind::kReply, bytes);
  EXPECT_EQ(decoded.verdict, Verdict::kComplete);
  EXPECT_EQ(decoded.size, size);
}

// Every value of every byte of a request and a reply, at every split point: the verdict equals the reference,
// is given at the first wrong byte, and never changes afterwards.
TEST(Mpa, JudgesEveryOneByteMutationAtEverySplit) {
  const Frame data(9, std::byte{1});
  for (const MpaKind kind : {MpaKind::kRequest, MpaKind::kReply}) {
    const char* key = kind == MpaKind::kRequest ? "MPA ID Req Frame" : "MPA ID Rep Frame";
    const Frame valid = Encode(Enhanced(kind, data));
    for (std::size_t at = 0; at < valid.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        Frame bytes = valid;
        bytes[at] = static_cast<std::byte>(value);
        const MpaFault expected = Reference(key, bytes);
        bool was_bad = false;
        for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
          const MpaDecoded decoded = DecodeMpa(kind, ByteSpan(bytes).first(cut));
          if (was_bad) {
            ASSERT_EQ(decoded.verdict, Verdict::kBad);
          }
          was_bad = decoded.verdict == Verdict::kBad;
          if (was_bad) {
            ASSERT_EQ(decoded.fault, expected) << at << " = " << value;
          }
          if (expected != MpaFault::kNone && cut >= 20) {
            ASSERT_TRUE(was_bad) << at << " = " << value << " cut " << cut;
          }
          if ((expected == MpaFault::kBadKey || expected == MpaFault::kBadRevision) && cut > at) {
            ASSERT_TRUE(was_bad);
          }
          if (decoded.verdict == Verdict::kNeedMore) {
            ASSERT_GT(decoded.need, 0u);
          }
        }
        ASSERT_EQ(was_bad, expected != MpaFault::kNone) << at << " = " << value;
      }
    }
  }
}

TEST(Mpa, BoundsTheAnnouncedLength) {
  for (const unsigned length :
       {0u, 1u, 3u, 4u, 251u, 252u, 255u, 256u, 257u, 511u, 512u, 513u, 767u, 768u, 65535u}) {
    Frame bytes = Encode(Enhanced(MpaKind::kRequest));
    StoreBig(&bytes[18], static_cast<std::uint16_t>(length));
    bytes.resize(20);
    const MpaDecoded decoded = DecodeMpa(MpaKind::kRequest, bytes);
    if (length > 512) {
      EXPECT_EQ(decoded.fault, MpaFault::kPrivateDataTooLong) << length;
    } else if (length < 4) {
      EXPECT_EQ(decoded.fault, MpaFault::kEnhancedTooShort) << length;
    } else {
      EXPECT_EQ(decoded.need, length);
    }
  }
}

TEST(Mpa, IgnoresReservedBits) {
  Frame bytes = Encode(Enhanced(MpaKind::kRequest));
  bytes[16] |= std::byte{0x2F};  // R in a request, and four reserved bits (siw uses one as a hint).
  const MpaDecoded decoded = DecodeMpa(MpaKind::kRequest, bytes);
  ASSERT_EQ(decoded.verdict, Verdict::kComplete);
  EXPECT_FALSE(decoded.frame.rejected);
  // In revision 1 the enhanced bit is one of the reserved ones: the four bytes are private data.
  bytes[17] = std::byte{1};
  EXPECT_FALSE(DecodeMpa(MpaKind::kRequest, bytes).frame.enhanced);
  EXPECT_EQ(DecodeMpa(MpaKind::kRequest, bytes).frame.private_data.size(), 4u);
}

TEST(MpaDeathTest, RefusesToSendAnEnhancedFrameOfRevisionOne) {
  MpaFrame frame = Enhanced(MpaKind::kReply);
  frame.revision = 1;
  Frame bytes(kMaxMpaFrame);
  EXPECT_DEATH(EncodeMpa(frame, bytes), "invariant broken");
}

TEST(Fpdu, SizesAreMultiplesOfFour) {
  for (std::size_t ulpdu = 0; ulpdu <= kMaxUlpdu; ++ulpdu) {
    ASSERT_EQ(FpduSize(ulpdu) % 4, 0u) << ulpdu;
    ASSERT_LT(FpduPad(ulpdu), 4u);
  }
  EXPECT_EQ(FpduSize(0), 8u);
  EXPECT_EQ(FpduSize(14), 20u);
  EXPECT_EQ(MaxUlpduFor(1460), 1454u);
  EXPECT_EQ(FpduSize(MaxUlpduFor(1460)), 1460u);
  EXPECT_EQ(MaxUlpduFor(5), 0u);
  EXPECT_EQ(MaxUlpduFor(1 << 20), kMaxUlpdu);
  for (std::size_t segment = 6; segment < 3000; ++segment) {
    const std::size_t ulpdu = MaxUlpduFor(segment);
    if (ulpdu != 0) {
      ASSERT_LE(FpduSize(ulpdu), segment);
    }
    ASSERT_GT(FpduSize(ulpdu + 1), segment);
  }
}

TEST(Fpdu, RoundTripsAtEveryLengthAndCut) {
  for (const bool crc : {true, false}) {
    for (std::size_t ulpdu = 0; ulpdu < 70; ++ulpdu) {
      Frame bytes(FpduSize(ulpdu), std::byte{0x5A});
      ASSERT_EQ(SealFpdu(bytes, ulpdu, crc), bytes.size());
      for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        const FpduDecoded part = DecodeFpdu(ByteSpan(bytes).first(cut), crc);
        ASSERT_EQ(part.verdict, Verdict::kNeedMore);
        ASSERT_EQ(part.need, (cut < 2 ? 2 : bytes.size()) - cut);
      }
      const FpduDecoded whole = DecodeFpdu(bytes, crc);
      ASSERT_EQ(whole.verdict, Verdict::kComplete);
      EXPECT_TRUE(whole.crc_ok);
      EXPECT_EQ(whole.ulpdu.size(), ulpdu);
      for (std::size_t pad = 0; pad < FpduPad(ulpdu); ++pad) EXPECT_EQ(bytes[2 + ulpdu + pad], std::byte{0});
      if (!crc) {
        EXPECT_EQ(LoadLittle32(&bytes[bytes.size() - 4]), 0u);
      }
    }
  }
}

TEST(Fpdu, NoticesEveryFlippedBit) {
  Frame bytes(FpduSize(33), std::byte{0x3C});
  SealFpdu(bytes, 33, true);
  for (std::size_t bit = 16; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(DecodeFpdu(bytes, true).crc_ok) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

TEST(Fpdu, TheTrailerEqualsTheSealedFrame) {
  for (const bool crc : {true, false}) {
    for (std::size_t ulpdu = 0; ulpdu < 20; ++ulpdu) {
      Frame bytes(FpduSize(ulpdu), std::byte{0x11});
      SealFpdu(bytes, ulpdu, crc);
      const ByteSpan head = ByteSpan(bytes).first(2 + ulpdu);
      const FpduTrailer trailer = MakeFpduTrailer(ulpdu, Crc32c(head), crc);
      EXPECT_TRUE(
          std::ranges::equal(ByteSpan(bytes).subspan(2 + ulpdu), ByteSpan(trailer.bytes, trailer.size)));
    }
  }
}

TEST(Mpa, NamesEachFault) {
  EXPECT_EQ(Name(MpaFault::kNone), "no fault");
  EXPECT_EQ(Name(MpaFault::kBadKey), "the key is not that of the expected MPA frame");
  EXPECT_EQ(Name(MpaFault::kBadRevision), "the MPA revision is neither 1 nor 2");
  EXPECT_EQ(Name(MpaFault::kPrivateDataTooLong), "more than 512 bytes of private data are announced");
  EXPECT_EQ(Name(MpaFault::kEnhancedTooShort), "an enhanced frame has no room for its read limits");
}

}  // namespace
}  // namespace nd::provider::soft::wire
