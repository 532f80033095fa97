// SPDX-License-Identifier: Apache-2.0
// Flips one bit on the wire. With CRC32c every flip is detected before a request completes with it. Without
// CRC the flip gets through, which proves that the injection works.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "tests/integrity/relay.h"
#include "tests/integrity/stamp.h"
#include "tests/integrity/world.h"
#include "tests/testing/network.h"

namespace nd::integrity {
namespace {

namespace wire = provider::soft::wire;

constexpr std::uint16_t kBehindRelay = 4795;
// The range of random flips: behind the RTR frame, within the bytes that every connection carries.
constexpr std::uint64_t kRtrSize = 20, kReach = 512 * 1024;

class Flips : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nd::testing::InPrivateNetwork()) {
      GTEST_SKIP() << "needs a network namespace: run as root, or allow user namespaces";
    }
    World::Forget();  // The brokers of the shared world use the same addresses.
  }
  void Start(bool crc) {
    relay_ = std::make_unique<Relay>("127.0.0.3", kTcpPort, kBehindRelay, "127.0.0.2");
    ASSERT_EQ(relay_->error(), "");
    world_ = std::make_unique<World>(Transport::kIwarp,
                                     WorldOptions{.crc = crc, .passive_tcp_port = kBehindRelay});
  }
  // Makes one connection for each flip.
  World::Reports Play(const std::vector<Flip>& flips, const std::string& words) {
    relay_->SetPlan([&flips](std::uint64_t n) { return n < flips.size() ? flips[n] : Flip{.none = true}; });
    World::Reports reports =
        world_->Both("program=flips connections=" + std::to_string(flips.size()) + " " + words);
    std::printf("%zu flips, %llu made\n  active  %s\n  passive %s\n", flips.size(),
                static_cast<unsigned long long>(relay_->flipped()), reports.active.c_str(),
                reports.passive.c_str());
    std::fflush(stdout);
    EXPECT_EQ(relay_->flipped(), flips.size());
    return reports;
  }
  // Every connection was ended by its flip, on both sides.
  void ExpectCaught(const World::Reports& reports) {
    EXPECT_EQ(reports.active.find("[SUCCESS]"), std::string::npos) << "a flip went unnoticed";
    EXPECT_EQ(reports.passive.find("[SUCCESS]"), std::string::npos) << "a flip went unnoticed";
    // Each side was notified, and nothing failed for another reason.
    for (const std::string& report : {reports.active, reports.passive}) {
      EXPECT_EQ(report.find("notify=PENDING"), std::string::npos);
      // Damage on the wire must not be reported as a wrong token or as a protocol error of the peer.
      EXPECT_EQ(report.find("ACCESS_VIOLATION"), std::string::npos);
      EXPECT_EQ(report.find("REMOTE_ERROR"), std::string::npos);
    }
    world_->ExpectNothingLeft();
  }
  // Flips every `step`-th bit of frame `frame` in that direction.
  std::vector<Flip> EachBit(bool to_active, std::uint32_t frame, std::uint64_t size, std::uint64_t step) {
    std::vector<Flip> flips;
    for (std::uint64_t bit = 0; bit < size * 8; bit += step) {
      flips.push_back({.to_active = to_active,
                       .in_frame = true,
                       .frame = frame,
                       .byte = bit / 8,
                       .bit = static_cast<std::uint8_t>(bit % 8)});
    }
    return flips;
  }

  std::unique_ptr<Relay> relay_;
  std::unique_ptr<World> world_;
};

TEST_F(Flips, RandomBitsAreCaughtThroughSockets) {
  Start(true);
  Random random(42);
  std::vector<Flip> flips(GetSettings().flips);
  for (Flip& flip : flips) {
    flip.to_active = random.OneIn(2);
    flip.byte = (flip.to_active ? 0 : kRtrSize) + random.Below(kReach);
    flip.bit = static_cast<std::uint8_t>(random.Below(8));
  }
  ExpectCaught(Play(flips, ""));
}

// Covers header, payload, pad and CRC of the three kinds of first frame. A payload of 37 bytes needs 3 bytes
// of pad.
TEST_F(Flips, EachBitOfAFrameIsCaughtThroughSockets) {
  Start(true);
  const std::uint64_t step =
      GetSettings().full ? 1 : 7;  // Coprime to 8, so every bit position of a byte occurs.
  const std::uint64_t tagged = wire::FpduSize(wire::kTaggedHeaderSize + 37);
  const std::uint64_t request = wire::FpduSize(wire::kUntaggedHeaderSize + wire::kReadRequestSize);
  ExpectCaught(Play(EachBit(false, 1, tagged, step), "first=write"));
  EXPECT_EQ(relay_->frame_size(), tagged);
  ExpectCaught(Play(EachBit(false, 1, request, step), "first=read"));
  EXPECT_EQ(relay_->frame_size(), request);
  ExpectCaught(Play(EachBit(true, 0, tagged, step), "first=read"));
  EXPECT_EQ(relay_->frame_size(), tagged);
}

// The frame that establishes the connection has a CRC too; the broker checks it.
TEST_F(Flips, EachBitOfTheReadyToReceiveFrameIsCaught) {
  Start(true);
  ExpectCaught(Play(EachBit(false, 0, kRtrSize, GetSettings().full ? 1 : 3), ""));
}

TEST_F(Flips, WithoutCrcAFlippedPayloadBitGetsThrough) {
  Start(false);
  // In the payload of the first Write.
  std::vector<Flip> flips(20);
  for (std::size_t i = 0; i < flips.size(); ++i) {
    flips[i] = {.in_frame = true,
                .frame = 1,
                .byte = wire::kFpduHeaderSize + wire::kTaggedHeaderSize + i,
                .bit = static_cast<std::uint8_t>(i % 8)};
  }
  const World::Reports reports = Play(flips, "first=write unprotected=1");
  EXPECT_EQ(reports.passive, "ok [damage]x20") << "every one of them completes with SUCCESS";
  world_->ExpectNothingLeft();
}

// A stream of frames of every kind, as bytes.
std::vector<std::byte> Frames(Random& random, std::size_t count, std::vector<std::size_t>* starts) {
  std::vector<std::byte> stream;
  for (std::size_t i = 0; i < count; ++i) {
    const auto opcode = static_cast<wire::Opcode>(random.Below(wire::kOpcodeCount));
    const std::size_t payload =
        opcode == wire::Opcode::kReadRequest ? wire::kReadRequestSize : random.Below(200);
    wire::Segment segment;
    segment.opcode = opcode;
    segment.stag = static_cast<std::uint32_t>(random.Next());
    segment.offset = random.Next() >> 1;
    segment.msn = static_cast<std::uint32_t>(random.Next());
    std::byte header[wire::kMaxSegmentHeader];
    const std::size_t header_size = wire::EncodeSegmentHeader(segment, header);
    const std::size_t ulpdu = header_size + payload;
    starts->push_back(stream.size());
    const std::size_t at = stream.size();
    stream.resize(at + wire::FpduSize(ulpdu));
    std::memcpy(stream.data() + at + wire::kFpduHeaderSize, header, header_size);
    Fill({random.Next(), 0}, 0, std::span(stream).subspan(at + wire::kFpduHeaderSize + header_size, payload));
    wire::SealFpdu(std::span(stream).subspan(at), ulpdu, true);
  }
  return stream;
}

TEST(FlipsInTheDecoder, EveryBitOfManyFramesIsCaught) {
  Random random(7);
  std::uint64_t flips = 0, unfinished = 0;
  const std::uint64_t wanted = GetSettings().full ? 20'000'000 : 400'000;
  while (flips < wanted) {
    std::vector<std::size_t> starts;
    // More bytes follow the damaged frame than the longest length that a flip can produce.
    std::vector<std::byte> stream = Frames(random, 400, &starts);
    ASSERT_TRUE(wire::DecodeFpdu(stream, true).crc_ok);
    for (std::size_t bit = 0; bit < starts[1] * 8; ++bit, ++flips) {
      stream[bit / 8] ^= std::byte{1} << (bit % 8);
      const wire::FpduDecoded decoded = wire::DecodeFpdu(stream, true);
      if (decoded.verdict == wire::Verdict::kComplete) {
        ASSERT_FALSE(decoded.crc_ok) << "bit " << bit << " of a frame of " << starts[1] << " bytes";
      } else {
        ++unfinished;  // A length beyond the stream: the decoder waits and delivers nothing.
      }
      stream[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
  std::printf("%llu bits flipped in frames, all caught; %llu left the frame unfinished\n",
              static_cast<unsigned long long>(flips), static_cast<unsigned long long>(unfinished));
}

TEST(FlipsInTheDecoder, WithoutCrcNothingIsCaught) {
  Random random(8);
  std::vector<std::size_t> starts;
  std::vector<std::byte> stream = Frames(random, 2, &starts);
  stream[wire::kFpduHeaderSize + wire::kTaggedHeaderSize] ^= std::byte{1};
  EXPECT_TRUE(wire::DecodeFpdu(stream, false).crc_ok);
  EXPECT_FALSE(wire::DecodeFpdu(stream, true).crc_ok);
}

}  // namespace
}  // namespace nd::integrity
