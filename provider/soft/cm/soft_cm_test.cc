// SPDX-License-Identifier: Apache-2.0
// Two managers over real sockets of the loopback interface.
#include "provider/soft/cm/soft_cm.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include "provider/soft/cm/soft_cm_fixture.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

TEST_F(SoftCm, DescribesItsAdapter) {
  Open(a, 1);
  const auto adapters = a.cm->adapters();
  ASSERT_EQ(adapters.size(), 1u);
  EXPECT_EQ(adapters[0].info.name, "soft0");
  EXPECT_EQ(adapters[0].info.addresses, std::vector{TestAddress(1)});
  EXPECT_EQ(adapters[0].info.max_caller_data, 240u);
  EXPECT_EQ(adapters[0].tcp_port, 4794);
  EXPECT_FALSE(adapters[0].reserve_ports);
}

TEST_F(SoftCm, EstablishesAndHandsOverSocketsThatCarryData) {
  const std::size_t before = CountDescriptors();
  OpenBoth();
  const std::size_t idle = CountDescriptors();
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(2, 7000)));
  const Recorded request = Next(p);
  ASSERT_EQ(request.kind, Recorded::kRequest);
  EXPECT_EQ(request.request.local, TestAddress(2, 7000));
  EXPECT_EQ(request.request.remote, TestAddress(1, 50001));
  EXPECT_EQ(request.request.adapter, "soft0");
  EXPECT_EQ(request.limits, (ReadLimits{16, 16}));
  EXPECT_EQ(request.data, (Bytes{1, 2, 3}));
  EXPECT_NE(static_cast<std::uint64_t>(request.id) & kInboundBit, 0u);
  AcceptParams accept;
  accept.limits = {8, 4};
  accept.private_data = {9};
  p.cm->Accept(request.id, accept);
  const Recorded reply = Next(a);
  ASSERT_EQ(reply.kind, Recorded::kReply);
  EXPECT_EQ(a.sink.reached, std::vector{CmId{1}}) << "told once, before the reply";
  EXPECT_TRUE(p.sink.reached.empty());
  EXPECT_EQ(reply.limits, (ReadLimits{8, 4}));
  EXPECT_EQ(reply.data, (Bytes{9}));
  a.cm->Confirm(CmId{1});
  EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
  EXPECT_EQ(Next(p).kind, Recorded::kEstablished);
  {
    auto active = a.cm->TakeHandOff(CmId{1});
    auto passive = p.cm->TakeHandOff(request.id);
    ASSERT_TRUE(active.ok() && passive.ok());
    EXPECT_EQ(active->record.transport, kIwarp);
    EXPECT_TRUE(active->wire_local.same_ip(TestAddress(1)));
    EXPECT_TRUE(active->wire_peer.same_ip(TestAddress(2)));
    EXPECT_EQ(active->wire_local, passive->wire_peer);
    EXPECT_EQ(active->wire_peer, passive->wire_local);
    EXPECT_NE(active->wire_local.port(), 0) << "a TCP port";
    EXPECT_EQ(active->record.flags, kHandOffActive | kHandOffCrc | kHandOffConfirm);
    EXPECT_EQ(passive->record.flags, kHandOffCrc | kHandOffConfirm);
    EXPECT_EQ(active->record.read_inbound, 4u);
    EXPECT_EQ(active->record.read_outbound, 8u);
    EXPECT_EQ(passive->record.read_inbound, 8u);
    EXPECT_EQ(passive->record.read_outbound, 4u);
    ASSERT_EQ(active->fds.size(), 1u);
    const int from = active->fds[0].get(), to = passive->fds[0].get();
    RawSend(from, {4, 5});
    pollfd ready{to, POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 5000), 1);
    EXPECT_EQ(RawReceive(to), (Bytes{4, 5}));
    linger how{};
    socklen_t length = sizeof how;
    getsockopt(from, SOL_SOCKET, SO_LINGER, &how, &length);
    EXPECT_EQ(how.l_onoff, 1);
    EXPECT_EQ(how.l_linger, 0);
    char name[16] = {};
    length = sizeof name;
    getsockopt(from, IPPROTO_TCP, TCP_CONGESTION, name, &length);
    EXPECT_TRUE(std::string(name) == "cubic" || std::string(name) == "reno") << name;
    // A second call fails, and Abort is harmless.
    EXPECT_FALSE(a.cm->TakeHandOff(CmId{1}).ok());
    a.cm->Abort(CmId{1});
    p.cm->Abort(request.id);
  }
  ExpectSilence();
  EXPECT_EQ(CountDescriptors(), idle);
  a.cm.reset();
  p.cm.reset();
  EXPECT_EQ(CountDescriptors(), before);
}

TEST_F(SoftCm, DataThatFollowsTheConfirmationIsLeftInTheSocket) {
  OpenBoth();
  const CmId inbound = Reply();
  a.cm->Confirm(CmId{1});
  ASSERT_EQ(Next(a).kind, Recorded::kEstablished);
  auto active = a.cm->TakeHandOff(CmId{1});
  RawSend(active->fds[0].get(), Bytes(5000, 7));
  ASSERT_EQ(Next(p).kind, Recorded::kEstablished);
  auto passive = p.cm->TakeHandOff(inbound);
  Bytes got;
  Pump([&] {
    const Bytes more = RawReceive(passive->fds[0].get());
    got.insert(got.end(), more.begin(), more.end());
    return got.size() >= 5000;
  });
  EXPECT_EQ(got, Bytes(5000, 7));
}

TEST_F(SoftCm, RejectionCarriesReasonAndData) {
  OpenBoth();
  p.cm->Reject(Request(1), Detail::kPeerRejected, Bytes(240, 3));
  Recorded seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kRejected);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionRefused);
  EXPECT_EQ(seen.status.detail(), Detail::kPeerRejected);
  EXPECT_EQ(seen.data, Bytes(240, 3));
  p.cm->Reject(Request(2), Detail::kNoListener, {});
  seen = Next(a);
  EXPECT_EQ(seen.status.detail(), Detail::kNoListener);
  EXPECT_TRUE(seen.data.empty());
  ExpectSilence();
}

TEST_F(SoftCm, ActiveSideMayRejectTheReply) {
  OpenBoth();
  const CmId inbound = Reply();
  a.cm->Reject(CmId{1}, Detail::kPeerRejected, {5, 6});
  const Recorded seen = Next(p);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.id, inbound);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(seen.status.detail(), Detail::kPeerRejected);
  EXPECT_EQ(seen.data, (Bytes{5, 6}));
  ExpectSilence();
}

TEST_F(SoftCm, WithdrawalIsSeenInEveryState) {
  OpenBoth();
  const std::size_t idle = CountDescriptors();
  Request(1);
  a.cm->Abort(CmId{1});
  Recorded seen = Next(p);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(seen.status.detail(), Detail::kPeerWithdrew);
  Reply(2);
  a.cm->Abort(CmId{2});
  seen = Next(p);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
  const CmId third = Reply(3);
  p.cm->Abort(third);
  seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(seen.status.detail(), Detail::kPeerWithdrew);
  ExpectSilence();
  EXPECT_EQ(CountDescriptors(), idle);
}

TEST_F(SoftCm, NoTimerRunsAgainstSlowApplications) {
  OpenBoth();
  const CmId inbound = Request();
  clock.Skip(std::chrono::hours(1));
  Settle();
  EXPECT_TRUE(a.sink.events.empty() && p.sink.events.empty());
  p.cm->Accept(inbound, {});
  EXPECT_EQ(Next(a).kind, Recorded::kReply);
  clock.Skip(std::chrono::hours(1));
  Settle();
  EXPECT_TRUE(a.sink.events.empty() && p.sink.events.empty());
  a.cm->Confirm(CmId{1});
  EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
  EXPECT_EQ(Next(p).kind, Recorded::kEstablished);
}

TEST_F(SoftCm, MissingBrokerIsARefusal) {
  Open(a, 1);
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
  const Recorded seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kFailed);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionRefused);
  EXPECT_EQ(seen.status.detail(), Detail::kNoListener);
  EXPECT_EQ(seen.status.native(), ECONNREFUSED);
  EXPECT_EQ(a.cm->handshakes(), 0u);
}

TEST_F(SoftCm, NoRouteIsNetworkUnreachable) {
  Open(a, 1);
  // A loopback address has no route to another host.
  a.cm->Connect(To(TestAddress(1, 50001), Address::V4({203, 0, 113, 1}, 7000)));
  const Recorded seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kFailed);
  EXPECT_EQ(seen.status.code(), StatusCode::kNetworkUnreachable);
}

TEST_F(SoftCm, UnansweredConnectTimesOut) {
  // A full backlog makes Linux drop SYNs.
  UniqueFd deaf(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  const std::size_t length = TestAddress(9, 4794).ToSockaddr(&storage);
  ASSERT_EQ(bind(deaf.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
  ASSERT_EQ(listen(deaf.get(), 0), 0);
  const UniqueFd filler = RawConnect(TestAddress(9, 4794));
  Open(a, 1);
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
  Settle();
  EXPECT_TRUE(a.sink.events.empty());
  clock.Skip(std::chrono::seconds(11));
  const Recorded seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kFailed);
  EXPECT_EQ(seen.status.code(), StatusCode::kIoTimeout);
  EXPECT_EQ(a.cm->handshakes(), 0u);
}

TEST_F(SoftCm, RefusalThatABusyManagerReadsLateIsARefusal) {
  Open(a, 1);
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
  clock.Skip(std::chrono::seconds(11));
  EXPECT_EQ(Next(a).status.code(), StatusCode::kConnectionRefused);
}

// The kernel of the other host answers for a broker that does not accept. That looks like an application that
// takes its time, so that only the end of that broker ends the wait.
TEST_F(SoftCm, ConnectThatIsNotAcceptedWaitsLikeOneThatIsNotAnswered) {
  UniqueFd deaf = RawListen(TestAddress(9, 4794));
  Open(a, 1);
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
  Settle();
  EXPECT_EQ(a.sink.reached.size(), 1u);
  clock.Skip(std::chrono::hours(1));
  Settle();
  EXPECT_TRUE(a.sink.events.empty());
  deaf.reset();
  const Recorded seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kFailed);
  EXPECT_EQ(seen.status.code(), StatusCode::kHostUnreachable);
  EXPECT_EQ(a.cm->handshakes(), 0u);
}

TEST_F(SoftCm, TakenTcpPortIsNamed) {
  const UniqueFd other = RawListen(TestAddress(1, 4794));
  Options options;
  options.adapters.emplace_back();
  options.adapters[0].addresses = {TestAddress(1)};
  auto made = MakeSoftCm(options, loop, a.sink);
  EXPECT_EQ(made.code(), StatusCode::kSharingViolation);
  EXPECT_NE(made.status().message().find("4794"), std::string::npos);
  options.adapters[0].addresses = {Address::V4({192, 0, 2, 77})};
  EXPECT_EQ(MakeSoftCm(options, loop, a.sink).code(), StatusCode::kInvalidAddress);
}

TEST_F(SoftCm, DefaultAdapterHasTheAddressesOfTheHost) {
  Options options;
  options.adapters.emplace_back();
  // A sandbox may have loopback only. A broker of this machine may have the default port, so the test uses
  // another.
  const UniqueFd probe = RawListen(Address::V4({127, 0, 0, 1}, 0));
  options.adapters[0].tcp_port = static_cast<std::uint16_t>(LocalAddressOf(probe.get()).port() ^ 1);
  auto made = MakeSoftCm(options, loop, a.sink);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const auto adapters = (*made)->adapters();
  const auto& addresses = adapters[0].info.addresses;
  EXPECT_NE(std::find(addresses.begin(), addresses.end(), Address::V4({127, 0, 0, 1})), addresses.end());
}

TEST_F(SoftCm, ResolvesRoutes) {
  Open(a, 1);
  EXPECT_EQ(*a.cm->Resolve("soft0", TestAddress(9, 5)), TestAddress(1));
  EXPECT_EQ(*a.cm->Resolve("", TestAddress(1)), TestAddress(1));
  EXPECT_EQ(a.cm->Resolve("soft0", Address::V4({203, 0, 113, 1})).code(), StatusCode::kNetworkUnreachable);
  EXPECT_EQ(a.cm->Resolve("soft0", Address::V4({0, 0, 0, 0})).code(), StatusCode::kNetworkUnreachable);
  EXPECT_EQ(a.cm->Resolve("soft0", Address::V4({224, 0, 0, 1})).code(), StatusCode::kNetworkUnreachable);
  EXPECT_EQ(a.cm->Resolve("soft0", Address()).code(), StatusCode::kInvalidAddress);
  EXPECT_EQ(a.cm->Resolve("soft0", Address::V6({0xFD, 1})).code(), StatusCode::kNetworkUnreachable);
}

TEST_F(SoftCm, ManyConnectionsAtOnceAllArrive) {
  OpenBoth();
  for (std::uint64_t id = 1; id <= 300; ++id) {
    a.cm->Connect(To(TestAddress(1, static_cast<std::uint16_t>(50000 + id)), TestAddress(2, 7000), id));
  }
  Pump([&] { return p.sink.events.size() == 300; });
  for (const Recorded& request : p.sink.events) p.cm->Reject(request.id, Detail::kBacklogFull, {});
  Pump([&] { return a.sink.events.size() == 300; });
  for (const Recorded& refused : a.sink.events) EXPECT_EQ(refused.status.detail(), Detail::kBacklogFull);
  p.sink.events.clear();
  a.sink.events.clear();
  ExpectSilence();
}

TEST_F(SoftCm, WorksOverIpv6) {
  const Address six = *Address::Parse("::1");
  const UniqueFd probe = RawListen(six);
  if (!probe) GTEST_SKIP() << "no IPv6 here";
  Open(p, 2, [&](Options& options) {
    options.adapters[0].addresses = {six};
    options.adapters[0].tcp_port = static_cast<std::uint16_t>(LocalAddressOf(probe.get()).port() ^ 1);
  });
  // A connection to the same address would use the loop, so the test plays this end with a raw socket.
  const UniqueFd raw = RawConnect(six.WithPort(p.cm->adapters()[0].tcp_port));
  ASSERT_TRUE(raw);
  ActiveHandshake handshake({PortMode::kSeparate, true, 128}, 50001, 7000, {1, 1}, {1});
  RawSend(raw.get(), handshake.Start().send);
  const Recorded request = Next(p);
  ASSERT_EQ(request.kind, Recorded::kRequest);
  EXPECT_EQ(request.request.local, six.WithPort(7000));
  EXPECT_EQ(request.request.remote, six.WithPort(50001));
}

}  // namespace
}  // namespace nd::provider::soft
