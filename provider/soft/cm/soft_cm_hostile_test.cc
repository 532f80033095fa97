// SPDX-License-Identifier: Apache-2.0
// Hostile peers over real sockets: truncation, slow sending, malformed frames, floods. Nothing of them may
// remain.
#include <gtest/gtest.h>

#include "provider/soft/cm/cm_test_util.h"

namespace nd::provider::soft {
namespace {

const HandshakeConfig kConfig{PortMode::kSeparate, true, 128};

class HostilePeer : public CmFixture {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(Open(p, 2)); }
  UniqueFd Dial() { return RawConnect(TestAddress(2, 4794)); }
  void ExpectNothingLeft(std::size_t descriptors) {
    Pump([&] { return CountDescriptors() == descriptors; });
    EXPECT_EQ(p.cm->handshakes(), 0u);
  }
  Host p;
};

TEST_F(HostilePeer, EveryCutOfARequestEndsCleanlyByFinAndByReset) {
  const std::size_t idle = CountDescriptors();
  const Bytes request = RequestBytes();
  for (std::size_t cut = 0; cut < request.size(); ++cut) {
    for (const bool reset : {false, true}) {
      UniqueFd raw = Dial();
      RawSend(raw.get(), Bytes(request.begin(), request.begin() + static_cast<std::ptrdiff_t>(cut)));
      loop.RunOnce(Duration::zero());
      loop.RunOnce(Duration::zero());
      reset ? RawReset(raw) : raw.reset();
      ExpectNothingLeft(idle);
    }
  }
  EXPECT_TRUE(p.sink.events.empty());
}

TEST_F(HostilePeer, EveryCutOfAConfirmationEndsCleanlyByFinAndByReset) {
  const std::size_t idle = CountDescriptors();
  for (std::size_t cut = 0; cut < 20; ++cut) {
    for (const bool reset : {false, true}) {
      UniqueFd raw = Dial();
      ActiveHandshake handshake(kConfig, 50001, 7000, {4, 4}, {});
      RawSend(raw.get(), handshake.Start().send);
      const Recorded request = Next(p);
      ASSERT_EQ(request.kind, Recorded::kRequest);
      p.cm->Accept(request.id, {{4, 4}, {}, 0, 0, 0});
      Bytes reply;
      Pump([&] { return !(reply = RawReceive(raw.get())).empty(); });
      ASSERT_EQ(handshake.OnInput(wire::AsBytes(reply)).event, HandshakeStep::Event::kReply);
      const Bytes rtr = handshake.Confirm().send;
      RawSend(raw.get(), Bytes(rtr.begin(), rtr.begin() + static_cast<std::ptrdiff_t>(cut)));
      loop.RunOnce(Duration::zero());
      reset ? RawReset(raw) : raw.reset();
      const Recorded lost = Next(p);
      EXPECT_EQ(lost.kind, Recorded::kLost);
      EXPECT_EQ(lost.status.code(), StatusCode::kConnectionAborted);
      ExpectNothingLeft(idle);
    }
  }
}

TEST_F(HostilePeer, EveryCutOfAReplyFailsTheConnect) {
  Host a;
  Open(a, 1);
  const UniqueFd server = RawListen(TestAddress(9, 4794));
  const std::size_t idle = CountDescriptors();
  const Bytes reply = handshake_internal::EncodeStartFrame(
      [] {
        wire::MpaFrame frame;
        frame.kind = wire::MpaKind::kReply;
        frame.enhanced = true;
        return frame;
      }(),
      PortMode::kSeparate, 7000, 50001, Detail::kNone, {});
  for (std::size_t cut = 0; cut < reply.size(); ++cut) {
    for (const bool reset : {false, true}) {
      a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
      UniqueFd raw;
      Pump([&] {
        if (!raw) raw.reset(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        return raw && !RawReceive(raw.get()).empty();
      });
      RawSend(raw.get(), Bytes(reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(cut)));
      loop.RunOnce(Duration::zero());
      reset ? RawReset(raw) : raw.reset();
      const Recorded failed = Next(a);
      EXPECT_EQ(failed.kind, Recorded::kFailed) << cut;
      EXPECT_EQ(failed.status.code(), StatusCode::kHostUnreachable);
      EXPECT_EQ(failed.status.detail(), Detail::kPeerBrokerLost);
      Pump([&] { return CountDescriptors() == idle; });
      EXPECT_EQ(a.cm->handshakes(), 0u);
    }
  }
}

TEST_F(HostilePeer, RequestInSingleBytesArrives) {
  const UniqueFd raw = Dial();
  for (const std::uint8_t byte : RequestBytes()) {
    RawSend(raw.get(), {byte});
    loop.RunOnce(Duration::zero());
  }
  EXPECT_EQ(Next(p).kind, Recorded::kRequest);
}

TEST_F(HostilePeer, FirstWrongByteClosesTheConnection) {
  const UniqueFd raw = Dial();
  RawSend(raw.get(), {'M', 'P', 'A'});
  Settle();
  EXPECT_FALSE(RawClosed(raw.get()));
  RawSend(raw.get(), {'X'});
  Pump([&] { return RawClosed(raw.get()); });
  EXPECT_EQ(p.cm->handshakes(), 0u);
}

TEST_F(HostilePeer, BytesBehindTheRequestCloseTheConnection) {
  Bytes request = RequestBytes();
  request.push_back(0);
  const UniqueFd raw = Dial();
  RawSend(raw.get(), request);
  Pump([&] { return RawClosed(raw.get()); });
  EXPECT_TRUE(p.sink.events.empty());
  // Bytes that come later withdraw the request that was reported.
  const UniqueFd late = Dial();
  RawSend(late.get(), RequestBytes());
  EXPECT_EQ(Next(p).kind, Recorded::kRequest);
  RawSend(late.get(), {0});
  const Recorded lost = Next(p);
  EXPECT_EQ(lost.kind, Recorded::kLost);
  EXPECT_EQ(lost.status.detail(), Detail::kProtocol);
}

TEST_F(HostilePeer, SlowSenderIsClosedAtAnAbsoluteDeadline) {
  const UniqueFd raw = Dial();
  const Bytes request = RequestBytes();
  std::size_t sent = 0;
  // One byte a second does not complete the request in time.
  while (!RawClosed(raw.get())) {
    ASSERT_LT(sent, 8u);
    RawSend(raw.get(), {request[sent++]});
    Settle();
    clock.Skip(std::chrono::seconds(1));
    Settle();
  }
  EXPECT_GE(sent, 4u);
  EXPECT_EQ(p.cm->handshakes(), 0u);
  EXPECT_TRUE(p.sink.events.empty());
}

TEST_F(HostilePeer, PartialFrameDoesNotSpinTheLoop) {
  const UniqueFd raw = Dial();
  RawSend(raw.get(), {'M', 'P', 'A'});
  Settle();
  const auto start = std::chrono::steady_clock::now();
  loop.RunOnce(std::chrono::milliseconds(60));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

TEST_F(HostilePeer, FloodEvictsTheOldestOfTheLargestSource) {
  p.cm.reset();
  Open(p, 2, [](Options& options) { options.max_half_open = 8; });
  // An honest peer of another network. Its connection is the oldest.
  UniqueFd honest(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  std::size_t length = Address::V4({127, 255, 7, 7}).ToSockaddr(&storage);
  ASSERT_EQ(bind(honest.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
  length = TestAddress(2, 4794).ToSockaddr(&storage);
  ASSERT_EQ(connect(honest.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 40; ++i) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::size_t from = TestAddress(3).ToSockaddr(&storage);
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(from)), 0);
    from = TestAddress(2, 4794).ToSockaddr(&storage);
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(from)), 0);
    flood.push_back(std::move(fd));
  }
  Settle();
  EXPECT_EQ(p.cm->handshakes(), 8u);
  EXPECT_TRUE(RawClosed(flood.front().get()));
  EXPECT_FALSE(RawClosed(flood.back().get()));
  RawSend(honest.get(), RequestBytes());
  EXPECT_EQ(Next(p).kind, Recorded::kRequest);
}

TEST_F(HostilePeer, RandomBytesNeverReachTheCore) {
  const std::size_t idle = CountDescriptors();
  std::uint32_t x = 12345;
  for (int round = 0; round < 200; ++round) {
    UniqueFd raw = Dial();
    Bytes bytes = round % 2 == 0 ? Bytes{} : RequestBytes();
    for (int i = 0; i < 40; ++i) {
      x = x * 1664525u + 1013904223u;
      if (round % 2 == 0) {
        bytes.push_back(static_cast<std::uint8_t>(x >> 24));
      } else if (i < 1) {
        bytes[(x >> 8) % 18] ^= static_cast<std::uint8_t>(x >> 24 | 1);
        bytes[0] ^= 0x80;
      }
    }
    RawSend(raw.get(), bytes);
    Pump([&] { return RawClosed(raw.get()); });
  }
  EXPECT_TRUE(p.sink.events.empty());
  ExpectNothingLeft(idle);
}

}  // namespace
}  // namespace nd::provider::soft
