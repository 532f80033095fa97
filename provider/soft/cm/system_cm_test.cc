// SPDX-License-Identifier: Apache-2.0
// The connection manager on the sockets of this system: what every system must do. Two hosts are two
// addresses.
#include <algorithm>
#include <array>
#include <cstddef>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "provider/soft/cm/cm_fixture.h"
#include "provider/soft/cm/handshake.h"
#include "provider/soft/segment.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

class SystemCm : public CmFixture {
 protected:
  void OpenBoth(const std::function<void(Options&)>& change = {}) {
    ASSERT_NO_FATAL_FAILURE(Open(a, 1, change));
    ASSERT_NO_FATAL_FAILURE(Open(p, 2, change));
  }
  // The passive end of a connection from 50001 to 7000.
  CmId Establish() {
    a.cm->Connect(To(TestAddress(1, 50001), TestAddress(2, 7000)));
    const Recorded request = Next(p);
    EXPECT_EQ(request.kind, Recorded::kRequest);
    EXPECT_EQ(request.request.local, TestAddress(2, 7000));
    EXPECT_EQ(request.request.remote, TestAddress(1, 50001));
    EXPECT_EQ(request.data, (Bytes{1, 2, 3}));
    p.cm->Accept(request.id, {{8, 4}, {9}, 0, 0, 0});
    const Recorded reply = Next(a);
    EXPECT_EQ(reply.kind, Recorded::kReply);
    EXPECT_EQ(reply.data, (Bytes{9}));
    a.cm->Confirm(CmId{1});
    EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
    EXPECT_EQ(Next(p).kind, Recorded::kEstablished);
    return request.id;
  }
  UniqueFd Dial() {
    return os::ConnectTcp(TestAddress(2).IpToString(), 4794, std::chrono::steady_clock::now() + kPatience)
        .socket;
  }
  Host a, p;
};

void Carry(int from, int to) {
  const std::array<std::uint8_t, 3> sent = {4, 5, 6};
  ASSERT_EQ(os::Send(from, sent.data(), sent.size()), 3);
  os::Watched wait[] = {{to}};
  ASSERT_EQ(os::Wait(wait, kPatience), 1);
  std::array<std::uint8_t, 8> got{};
  ASSERT_EQ(os::Receive(to, got.data(), got.size()), 3);
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), got.begin()));
}

TEST_F(SystemCm, HandedOverSocketsCarryDataBothWays) {
  ASSERT_NO_FATAL_FAILURE(OpenBoth());
  const CmId inbound = Establish();
  auto active = a.cm->TakeHandOff(CmId{1});
  auto passive = p.cm->TakeHandOff(inbound);
  ASSERT_TRUE(active.ok() && passive.ok());
  EXPECT_EQ(active->record.transport, kIwarp);
  EXPECT_EQ(active->wire_local, passive->wire_peer);
  EXPECT_EQ(active->wire_peer, passive->wire_local);
  EXPECT_TRUE(active->wire_local.same_ip(TestAddress(1)));
  ASSERT_EQ(active->fds.size(), 1u);
  Carry(active->fds[0].get(), passive->fds[0].get());
  Carry(passive->fds[0].get(), active->fds[0].get());
}

TEST_F(SystemCm, TcpModeConnectsFromTheLocalPort) {
  ASSERT_NO_FATAL_FAILURE(OpenBoth([](Options& options) { options.adapters[0].tcp_mode = true; }));
  p.cm->Reserve(EndpointId{7}, "soft0", TestAddress(2, 7000));
  EXPECT_TRUE(Next(p).status.ok());
  p.cm->Listen(EndpointId{7}, "soft0", TestAddress(2, 7000));
  a.cm->Reserve(EndpointId{1}, "soft0", TestAddress(1, 50001));
  EXPECT_TRUE(Next(a).status.ok());
  const CmId inbound = Establish();
  auto active = a.cm->TakeHandOff(CmId{1});
  auto passive = p.cm->TakeHandOff(inbound);
  ASSERT_TRUE(active.ok() && passive.ok());
  EXPECT_EQ(active->wire_local, TestAddress(1, 50001));
  EXPECT_EQ(active->wire_peer, TestAddress(2, 7000));
  Carry(active->fds[0].get(), passive->fds[0].get());
}

// In each pause the manager sees the beginning of a frame again. It must neither take it for the whole nor
// spin.
TEST_F(SystemCm, RequestArrivesInPieces) {
  ASSERT_NO_FATAL_FAILURE(
      OpenBoth([](Options& options) { options.request_timeout = std::chrono::minutes(10); }));
  const UniqueFd peer = Dial();
  ASSERT_TRUE(peer);
  ActiveHandshake handshake(HandshakeConfig{}, 50001, 7000, {16, 16}, {1, 2, 3});
  const Bytes request = handshake.Start().send;
  constexpr std::size_t kPiece = 9;
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t rounds = 0;
  for (std::size_t at = 0; at < request.size(); at += kPiece) {
    const std::size_t size = std::min(kPiece, request.size() - at);
    ASSERT_EQ(os::Send(peer.get(), request.data() + at, size), static_cast<std::ptrdiff_t>(size));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    for (; std::chrono::steady_clock::now() < end; ++rounds) loop.RunOnce(std::chrono::milliseconds(100));
  }
  const auto passed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(rounds, passed / std::chrono::milliseconds(2)) << "the loop spins";
  const Recorded arrived = Next(p);
  ASSERT_EQ(arrived.kind, Recorded::kRequest);
  EXPECT_EQ(arrived.request.local.port(), 7000);
  EXPECT_EQ(arrived.data, (Bytes{1, 2, 3}));
  p.cm->Reject(arrived.id, Detail::kPeerRejected, {});
}

// The manager was busy beyond each deadline, and everything had come before.
TEST_F(SystemCm, BusyManagerTimesOutNobodyWhoWasInTime) {
  ASSERT_NO_FATAL_FAILURE(OpenBoth());
  const UniqueFd peer = Dial();
  ASSERT_TRUE(peer);
  Pump([&] { return p.cm->handshakes() == 1; });
  const Bytes request = ActiveHandshake(HandshakeConfig{}, 50001, 7000, {16, 16}, {}).Start().send;
  ASSERT_EQ(os::Send(peer.get(), request.data(), request.size()),
            static_cast<std::ptrdiff_t>(request.size()));
  clock.Skip(std::chrono::seconds(6));
  EXPECT_EQ(Next(p).kind, Recorded::kRequest);

  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(2, 7000)));
  clock.Skip(std::chrono::seconds(11));
  EXPECT_EQ(Next(p).kind, Recorded::kRequest);
  EXPECT_TRUE(a.sink.events.empty());
}

TEST_F(SystemCm, EndOfThePeerIsNoticedInEveryStage) {
  ASSERT_NO_FATAL_FAILURE(OpenBoth());
  Dial().reset();  // Before a request: it is forgotten.
  const Bytes request = ActiveHandshake(HandshakeConfig{}, 50001, 7000, {16, 16}, {}).Start().send;
  for (const bool reset : {false, true}) {
    UniqueFd peer = Dial();
    ASSERT_EQ(os::Send(peer.get(), request.data(), request.size()),
              static_cast<std::ptrdiff_t>(request.size()));
    const Recorded arrived = Next(p);
    ASSERT_EQ(arrived.kind, Recorded::kRequest);
    os::ResetOnClose(peer.get(), reset);
    peer.reset();
    const Recorded lost = Next(p);
    EXPECT_EQ(lost.kind, Recorded::kLost);
    EXPECT_EQ(lost.id, arrived.id);
  }
  EXPECT_EQ(p.cm->handshakes(), 0u);
}

TEST_F(SystemCm, RefusalsHaveTheirReason) {
  ASSERT_NO_FATAL_FAILURE(OpenBoth());
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
  const Recorded nobody = Next(a);
  EXPECT_EQ(nobody.kind, Recorded::kFailed);
  EXPECT_EQ(nobody.status, StatusCode::kConnectionRefused);
  EXPECT_EQ(nobody.status.detail(), Detail::kNoListener);

  a.cm->Connect(To(TestAddress(1, 50002), TestAddress(2, 7000), 2));
  const Recorded request = Next(p);
  ASSERT_EQ(request.kind, Recorded::kRequest);
  p.cm->Reject(request.id, Detail::kPeerRejected, {5, 6});
  const Recorded rejected = Next(a);
  EXPECT_EQ(rejected.kind, Recorded::kRejected);
  EXPECT_EQ(rejected.id, CmId{2});
  EXPECT_EQ(rejected.data, (Bytes{5, 6}));
}

TEST_F(SystemCm, PortOfAnotherManagerIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Open(p, 2));
  Options options;
  options.adapters.emplace_back();
  options.adapters[0].addresses = {TestAddress(2)};
  Recorder sink;
  EXPECT_EQ(MakeSoftCm(options, loop, sink).code(), StatusCode::kSharingViolation);
}

TEST_F(SystemCm, HeldPortListensAndStopsAgainAndAgain) {
  ASSERT_NO_FATAL_FAILURE(Open(p, 2, [](Options& options) { options.adapters[0].tcp_mode = true; }));
  const Address at = TestAddress(2, 7000);
  const auto answers = [&] {
    return static_cast<bool>(
        os::ConnectTcp(at.IpToString(), at.port(), std::chrono::steady_clock::now() + kPatience).socket);
  };
  p.cm->Reserve(EndpointId{1}, "soft0", at);
  EXPECT_TRUE(Next(p).status.ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(answers());
    p.cm->Listen(EndpointId{1}, "soft0", at);
    EXPECT_TRUE(answers());
    p.cm->Unlisten(EndpointId{1});
  }
  EXPECT_FALSE(os::ListenTcp(at, 1)) << "the port is held";
}

TEST_F(SystemCm, TwoApplicationsOfOneHostShareMemory) {
  ASSERT_NO_FATAL_FAILURE(Open(a, 1));
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(1, 7000)));
  const Recorded request = Next(a);
  ASSERT_EQ(request.kind, Recorded::kRequest);
  a.cm->Accept(request.id, {{8, 4}, {}, 0, 0, 0});
  EXPECT_EQ(Next(a).kind, Recorded::kReply);
  a.cm->Confirm(CmId{1});
  EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
  EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
  auto one = a.cm->TakeHandOff(CmId{1}), other = a.cm->TakeHandOff(request.id);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->record.transport, kShared);
  ASSERT_EQ(one->fds.size(), 2u);
  ASSERT_EQ(other->fds.size(), 2u);
  auto left = Mapping::Map(one->fds[0].get(), kSegmentSize, true);
  auto right = Mapping::Map(other->fds[0].get(), kSegmentSize, true);
  ASSERT_TRUE(left.ok() && right.ok());
  left->data()[4711] = std::byte{42};
  EXPECT_EQ(right->data()[4711], std::byte{42});
  EXPECT_TRUE(SendWithFds(one->fds[1].get(), std::as_bytes(std::span("x")), {}).ok());
  std::array<std::byte, 8> bell;
  os::Watched wait[] = {{other->fds[1].get()}};
  ASSERT_EQ(os::Wait(wait, kPatience), 1);
  EXPECT_TRUE(ReceiveWithFds(other->fds[1].get(), bell, false).ok());
}

}  // namespace
}  // namespace nd::provider::soft
