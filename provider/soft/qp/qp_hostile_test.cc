// SPDX-License-Identifier: Apache-2.0
// Peers that break rules: this process must neither crash nor hang, and must report the cause.
#include <random>
#include <thread>

#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"
#include "provider/soft/wire/crc32c.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"
#include "tests/testing/segments.h"

namespace nd::provider::soft {
namespace {

using nd::testing::ReadOf;
using nd::testing::Tagged;
using nd::testing::Untagged;
using ms = std::chrono::milliseconds;

// One real end; the test controls the other end of the socket.
class RawPeer {
 public:
  explicit RawPeer(std::uint32_t limit = 4, const Tuning& tuning = {}) : end(tuning) {
    HandOffs both = MakeHandOffs(Link::kIwarp, limit);
    socket = std::move(both.active.fds[0]);
    EXPECT_TRUE(end.qp->Attach(std::move(both.passive)).ok());
  }
  void Send(const wire::Segment& segment, const std::vector<std::byte>& payload, bool spoil = false) {
    std::vector<std::byte> frame(wire::FpduSize(wire::kMaxSegmentHeader + payload.size()));
    const std::size_t header = wire::EncodeSegmentHeader(segment, frame.data() + 2);
    if (!payload.empty()) std::memcpy(frame.data() + 2 + header, payload.data(), payload.size());
    const std::size_t size = wire::SealFpdu(frame, header + payload.size(), true);
    if (spoil) frame[5] ^= std::byte{0x10};
    // The connection may be closed already, which is correct.
    os::Send(socket.get(), frame.data(), size);
  }
  // Reads until a Terminate comes.
  std::optional<wire::Fault> Terminated() {
    std::vector<std::byte> bytes;
    for (;;) {
      std::byte buffer[4096];
      if (!Readable(socket.get(), std::chrono::seconds(10))) return std::nullopt;
      const std::ptrdiff_t got = os::Receive(socket.get(), buffer, sizeof buffer);
      if (got <= 0) return std::nullopt;
      bytes.insert(bytes.end(), buffer, buffer + got);
      for (;;) {
        const wire::FpduDecoded frame = wire::DecodeFpdu(bytes, true);
        if (frame.verdict != wire::Verdict::kComplete) break;
        EXPECT_TRUE(frame.crc_ok);
        wire::Segment segment;
        EXPECT_FALSE(wire::DecodeSegment(frame.ulpdu, &segment));
        if (segment.opcode == wire::Opcode::kTerminate) {
          const auto words = wire::DecodeTerminate(segment.payload, wire::TerminateLayout::kRfc);
          return words ? std::optional(words->fault) : std::nullopt;
        }
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(frame.size));
      }
    }
  }
  End end;
  UniqueFd socket;
};

std::vector<std::byte> AtomicOn(std::uint32_t stag, std::uint64_t at) {
  std::vector<std::byte> payload(wire::kAtomicRequestSize);
  wire::EncodeAtomicRequest({.id = 1, .stag = stag, .offset = at, .value = 1}, payload.data());
  return payload;
}

TEST(HostileWire, EveryViolationGetsItsTerminateCode) {
  struct Row {
    const char* what;
    std::function<void(RawPeer&, const Memory&)> attack;
    wire::Fault expected;
  };
  const std::vector<std::byte> eight(8);
  const auto write = [](std::uint32_t stag, std::uint64_t to) {
    return Tagged(wire::Opcode::kWrite, stag, to);
  };
  const Row rows[] = {
      {"bad CRC", [&](RawPeer& p, const Memory&) { p.Send(Untagged(wire::Opcode::kSend), eight, true); },
       wire::fault::kCrc},
      {"MSN", [&](RawPeer& p, const Memory&) { p.Send(Untagged(wire::Opcode::kSend, 2), eight); },
       wire::fault::kMsnRange},
      {"MO", [&](RawPeer& p, const Memory&) { p.Send(Untagged(wire::Opcode::kSend, 1, 8), eight); },
       wire::fault::kMessageOffset},
      {"MO gap",
       [&](RawPeer& p, const Memory&) {
         p.Send(Untagged(wire::Opcode::kSend, 1, 0, false), eight);
         p.Send(Untagged(wire::Opcode::kSend, 1, 16), eight);
       },
       wire::fault::kMessageOffset},
      {"too long",
       [&](RawPeer& p, const Memory&) { p.Send(Untagged(wire::Opcode::kSend), std::vector<std::byte>(65)); },
       wire::fault::kMessageTooLong},
      {"no receive",
       [&](RawPeer& p, const Memory&) {
         p.Send(Untagged(wire::Opcode::kSend), eight);
         p.Send(Untagged(wire::Opcode::kSend, 2), eight);
       },
       wire::fault::kNoBuffer},
      {"write STag", [&](RawPeer& p, const Memory& m) { p.Send(write(m.token() ^ 3, m.Address()), eight); },
       wire::fault::kDdpInvalidStag},
      {"write bounds", [&](RawPeer& p, const Memory& m) { p.Send(write(m.token(), m.Address(4089)), eight); },
       wire::fault::kDdpBounds},
      {"write before", [&](RawPeer& p, const Memory& m) { p.Send(write(m.token(), m.Address() - 1), eight); },
       wire::fault::kDdpBounds},
      {"write wrap", [&](RawPeer& p, const Memory& m) { p.Send(write(m.token(), UINT64_MAX - 3), eight); },
       wire::fault::kDdpOffsetWrap},
      {"read STag",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kReadRequest), ReadOf(m.token() ^ 1, m.Address(), 8));
       },
       wire::fault::kInvalidStag},
      {"read bounds",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kReadRequest), ReadOf(m.token(), m.Address(), 4097));
       },
       wire::fault::kBounds},
      {"read MSN",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kReadRequest, 5), ReadOf(m.token(), m.Address(), 8));
       },
       wire::fault::kMsnRange},
      {"response unasked",
       [&](RawPeer& p, const Memory&) { p.Send(Untagged(wire::Opcode::kReadResponse), eight); },
       wire::fault::kUnexpectedOpcode},
      {"received more than was sent", [&](RawPeer& p, const Memory&) { p.Send(write(0, 1), {}); },
       wire::fault::kDdpBounds},
      {"immediate inside a Send",
       [&](RawPeer& p, const Memory&) {
         p.Send(Untagged(wire::Opcode::kSend, 1, 0, false), {});
         p.Send(Untagged(wire::Opcode::kImmediate), eight);
       },
       wire::fault::kMessageOffset},
      {"immediate MSN",
       [&](RawPeer& p, const Memory&) { p.Send(Untagged(wire::Opcode::kImmediate, 2), eight); },
       wire::fault::kMsnRange},
      {"immediate without a receive",
       [&](RawPeer& p, const Memory&) {
         p.Send(Untagged(wire::Opcode::kImmediate), eight);
         p.Send(Untagged(wire::Opcode::kImmediateSolicited, 2), eight);
       },
       wire::fault::kNoBuffer},
      {"immediate of a Write that is too long",
       [&](RawPeer& p, const Memory&) {
         p.Send(Untagged(wire::Opcode::kImmediate), std::vector<std::byte>(8, std::byte{0xFF}));
       },
       wire::fault::kOperationUnspecified},
      {"atomic STag",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kAtomicRequest), AtomicOn(m.token() ^ 1, m.Address()));
       },
       wire::fault::kInvalidStag},
      {"atomic rights",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kAtomicRequest), AtomicOn(m.token(), m.Address()));
       },
       wire::fault::kAccessRights},
      {"atomic alignment",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kAtomicRequest), AtomicOn(m.token(), m.Address(4)));
       },
       wire::fault::kOperationUnspecified},
      {"atomic masks",
       [&](RawPeer& p, const Memory& m) {
         auto payload = AtomicOn(m.token(), m.Address());
         payload[30] = std::byte{1};
         p.Send(Untagged(wire::Opcode::kAtomicRequest), payload);
       },
       wire::fault::kOperationUnspecified},
      {"atomic MSN",
       [&](RawPeer& p, const Memory& m) {
         p.Send(Untagged(wire::Opcode::kAtomicRequest, 5), AtomicOn(m.token(), m.Address()));
       },
       wire::fault::kMsnRange},
      {"atomic response unasked",
       [&](RawPeer& p, const Memory&) {
         p.Send(Untagged(wire::Opcode::kAtomicResponse), std::vector<std::byte>(12));
       },
       wire::fault::kUnexpectedOpcode},
      {"invalidate a region",
       [&](RawPeer& p, const Memory& m) {
         wire::Segment segment = Untagged(wire::Opcode::kSendInvalidate);
         segment.invalidate_stag = m.token();
         p.Send(segment, eight);
       },
       wire::fault::kInvalidStag},
  };
  for (const Row& row : rows) {
    RawPeer peer(4, {.rnr_timeout = ms(50)});
    Memory m(peer.end, 4096, false), r(peer.end, 64, false);
    Sge in = r.At(0, 64);
    ASSERT_TRUE(peer.end.qp->Receive(nullptr, {&in, 1}).ok());
    row.attack(peer, m);
    const auto fault = peer.Terminated();
    ASSERT_TRUE(fault) << row.what;
    EXPECT_EQ(wire::Describe(*fault), wire::Describe(row.expected)) << row.what;
    ASSERT_TRUE(peer.end.Until([&] { return peer.end.closed == 1; })) << row.what;
    EXPECT_EQ(peer.end.seen->cause.message(), "This side ended it: " + wire::Describe(row.expected) + ".");
  }
}

TEST(HostileWire, ReportedCountConfirmsExactlyThatMany) {
  RawPeer peer(4);
  Memory m(peer.end, 64, false);
  Sge one = m.At(0, 8);
  const auto received = [&](std::uint64_t count) {
    wire::Segment segment = Untagged(wire::Opcode::kWrite);
    segment.offset = count;
    peer.Send(segment, {});
  };
  received(0);  // Has the same form as the ready-to-receive frame.
  // An empty Write to STag 0 by an application looks like a report, is none and is not counted.
  ASSERT_TRUE(peer.end.qp->Write(Tag(1), {}, 12345, 0, 0).ok());
  for (std::uintptr_t i = 2; i <= 4; ++i) ASSERT_TRUE(peer.end.qp->Send(Tag(i), {&one, 1}, 0).ok());
  received(2);
  for (std::uintptr_t i = 1; i <= 3; ++i) {
    const Completion done = peer.end.Next();
    EXPECT_EQ(done.status, StatusCode::kSuccess);
    EXPECT_EQ(done.request_context, Tag(i));
  }
  received(1);  // Known already.
  os::ShutDown(peer.socket.get(), os::Direction::kSend);
  const Completion last = peer.end.Next();
  EXPECT_EQ(last.status, StatusCode::kCanceled);
  EXPECT_EQ(last.request_context, Tag(4));
}

TEST(HostileWire, MoreReadsThanTheLimitEndTheConnection) {
  RawPeer peer(4);
  Memory m(peer.end, 8 << 20, false);
  for (std::uint32_t i = 1; i <= 64; ++i) {
    peer.Send(Untagged(wire::Opcode::kReadRequest, i), ReadOf(m.token(), m.Address(), 8 << 20));
  }
  const auto fault = peer.Terminated();
  if (fault) {
    EXPECT_EQ(*fault, wire::fault::kNoBuffer);
  }
  EXPECT_TRUE(peer.end.Until([&] { return peer.end.closed == 1; }));
}

TEST(HostileWire, RandomBytesNeverCrash) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    RawPeer peer(4, {.rnr_timeout = ms(10)});
    Memory m(peer.end, 4096, false);
    std::vector<std::byte> noise(random() % 3000 + 1);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    // In half of the rounds the random bytes are in a frame with a correct CRC.
    if (round % 2 == 0) {
      std::vector<std::byte> frame(wire::FpduSize(noise.size()));
      std::memcpy(frame.data() + 2, noise.data(), noise.size());
      if (noise.size() > 2) {
        frame[2] = static_cast<std::byte>(0x41 | (random() % 2 ? 0x80 : 0));
        frame[3] = static_cast<std::byte>(0x40 | random() % 8);
      }
      wire::SealFpdu(frame, noise.size(), true);
      noise = std::move(frame);
    }
    os::Send(peer.socket.get(), noise.data(), noise.size());
    peer.socket.reset();
    EXPECT_TRUE(peer.end.Until([&] { return peer.end.closed == 1; })) << round;
  }
}

TEST(HostileSegment, MutatedWhileRunning) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    End a({.rnr_timeout = ms(20)}), b({.rnr_timeout = ms(20)});
    HandOffs both = MakeHandOffs(Link::kShared);
    const Mapping segment = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    std::byte* const bytes = segment.data();
    ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
    Memory from(a, 65536, true), to(b, 65536, true);
    std::atomic<bool> stop{false};
    const unsigned seed = static_cast<unsigned>(random());
    std::thread mutator([&, seed] {
      std::mt19937 own(seed);
      while (!stop) {
        // Mostly in the control blocks and the first slots.
        const std::size_t where = own() % 4 == 0 ? own() % kSegmentSize
                                  : own() % 2    ? own() % 512
                                                 : 4096 + (own() % 2) * sizeof(Ring) + own() % 4096;
        bytes[where] = static_cast<std::byte>(own());
      }
    });
    const Time until = In(ms(30));
    Completion done[16];
    Sge in = to.At(0, 4096), out = from.At(0, 1000), big = from.At(0, 40000);
    while (Time(std::chrono::steady_clock::now()) < until) {
      (void)b.qp->Receive(nullptr, {&in, 1});
      (void)a.qp->Send(nullptr, {&out, 1}, 0);
      (void)a.qp->Write(nullptr, {&big, 1}, to.Address(), to.token(), 0);
      (void)a.qp->Read(nullptr, {&big, 1}, to.Address(), to.token(), 0);
      a.cq->Poll(done);
      b.cq->Poll(done);
    }
    stop = true;
    mutator.join();
    a.qp->Drop();
    b.qp->Drop();
  }
}

TEST(HostileHandOff, IsRefusedAndLeavesTheQueuePairAsItWas) {
  End end;
  const auto refused = [&](HandOff hand_off) { return !end.qp->Attach(std::move(hand_off)).ok(); };
  HandOffs both = MakeHandOffs(Link::kShared);
  const auto without_descriptors = [&] {
    HandOff hand_off;
    hand_off.record = both.passive.record;
    return hand_off;
  };
  HandOff bad = without_descriptors();
  EXPECT_TRUE(refused(std::move(bad)));
  bad = without_descriptors();
  SetPayload(SharedPayload{.segment_size = 4096}, &bad.record);
  bad.fds.push_back(os::Duplicate(both.passive.fds[0].get()));
  bad.fds.push_back(os::Duplicate(both.passive.fds[1].get()));
  EXPECT_TRUE(refused(std::move(bad)));
  bad = without_descriptors();
  bad.fds.push_back(os::Duplicate(both.passive.fds[0].get()));
  bad.fds.push_back(os::Duplicate(both.passive.fds[0].get()));
  EXPECT_TRUE(refused(std::move(bad)));
  EXPECT_TRUE(end.qp->Attach(std::move(both.passive)).ok());
}

}  // namespace
}  // namespace nd::provider::soft
