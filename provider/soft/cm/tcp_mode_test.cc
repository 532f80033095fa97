// SPDX-License-Identifier: Apache-2.0
// Adapters whose ND ports are TCP ports of the host.
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include "provider/soft/cm/rejected_peers.h"
#include "provider/soft/cm/soft_cm_fixture.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

class TcpMode : public SoftCm {
 protected:
  void Reserve(Host& host, std::uint64_t endpoint, const Address& local,
               StatusCode expected = StatusCode::kSuccess) {
    host.cm->Reserve(EndpointId{endpoint}, "soft0", local);
    const Recorded answer = Next(host);
    ASSERT_EQ(answer.kind, Recorded::kReserved);
    EXPECT_EQ(answer.status.code(), expected) << answer.status.ToString();
  }
};

TEST_F(TcpMode, NdPortsAreTcpPorts) {
  OpenBoth(Tcp);
  EXPECT_TRUE(a.cm->adapters()[0].reserve_ports);
  EXPECT_EQ(a.cm->adapters()[0].info.max_caller_data, 248u);
  Reserve(p, 7, TestAddress(2, 7000));
  Reserve(a, 1, TestAddress(1, 50001));
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(2, 7000)));
  Recorded seen = Next(a);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionRefused);  // Reserved, but without a listener.
  p.cm->Listen(EndpointId{7}, "soft0", TestAddress(2, 7000));
  const CmId inbound = Reply();
  a.cm->Confirm(CmId{1});
  EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
  EXPECT_EQ(Next(p).kind, Recorded::kEstablished);
  auto active = a.cm->TakeHandOff(CmId{1});
  auto passive = p.cm->TakeHandOff(inbound);
  EXPECT_EQ(LocalAddressOf(active->fds[0].get()), TestAddress(1, 50001));
  EXPECT_EQ(LocalAddressOf(passive->fds[0].get()), TestAddress(2, 7000));
  EXPECT_EQ(active->record.flags, kHandOffActive | kHandOffCrc);
  p.cm->Unlisten(EndpointId{7});
  EXPECT_FALSE(RawConnect(TestAddress(2, 7000)));
  p.cm->Listen(EndpointId{7}, "soft0", TestAddress(2, 7000));
  EXPECT_TRUE(RawConnect(TestAddress(2, 7000)));
}

TEST_F(TcpMode, ReservedPortIsHeldAgainstEveryProgram) {
  OpenBoth(Tcp);
  Reserve(p, 1, TestAddress(2, 7000));
  // Neither a bind nor a listen of another process succeeds, whatever options it uses.
  EXPECT_EQ(HoldPort(TestAddress(2, 7000)).code(), StatusCode::kSharingViolation);
  EXPECT_EQ(ListenOn(TestAddress(2, 7000)).code(), StatusCode::kSharingViolation);
  EXPECT_EQ(BindBeside(-1, TestAddress(2, 7000)).code(), StatusCode::kSharingViolation);
  p.cm->Listen(EndpointId{1}, "soft0", TestAddress(2, 7000));
  EXPECT_EQ(BindBeside(-1, TestAddress(2, 7000)).code(), StatusCode::kSharingViolation);
  p.cm->Unlisten(EndpointId{1});
  EXPECT_EQ(BindBeside(-1, TestAddress(2, 7000)).code(), StatusCode::kSharingViolation);
  p.cm->Release(EndpointId{1});
  Reserve(p, 2, TestAddress(2, 7000));
  Reserve(p, 3, Address::V4({203, 0, 113, 1}, 7000), StatusCode::kInvalidAddress);
}

TEST_F(TcpMode, TimeWaitDoesNotBlockAPort) {
  OpenBoth(Tcp);
  for (int round = 0; round < 3; ++round) {
    Reserve(p, 7, TestAddress(2, 7000));
    p.cm->Listen(EndpointId{7}, "soft0", TestAddress(2, 7000));
    Reserve(a, 1, TestAddress(1, 50001));
    p.cm->Reject(Request(), Detail::kPeerRejected, {});
    EXPECT_EQ(Next(a).kind, Recorded::kRejected);
    Settle();
    p.cm->Release(EndpointId{7});
    a.cm->Release(EndpointId{1});
  }
}

class RefusedPeer : public TcpMode {
 protected:
  void SetUp() override {
    Open(p, 2, Tcp);
    Reserve(p, 7, at);
    p.cm->Listen(EndpointId{7}, "soft0", at);
  }
  // A foreign peer whose request was rejected a moment ago; the loop has not run since.
  UniqueFd Refused() {
    UniqueFd raw = RawConnect(at);
    RawSend(raw.get(), ActiveHandshake({PortMode::kTcp, true, 128}, 0, 0, {4, 4}, {}).Start().send);
    p.cm->Reject(Next(p).id, Detail::kPeerRejected, {5, 6});
    return raw;
  }
  const Address at = TestAddress(2, 7000);
};

TEST_F(RefusedPeer, ReadsItsRejectionBeforeTheConnectionEnds) {
  const std::size_t idle = CountDescriptors();
  UniqueFd raw = Refused();
  EXPECT_FALSE(RawClosed(raw.get()));
  EXPECT_FALSE(RawReceive(raw.get()).empty());
  raw.reset();
  Pump([&] { return CountDescriptors() == idle; });
}

TEST_F(RefusedPeer, WhichDoesNotCloseIsClosedAfterAWhile) {
  const UniqueFd raw = Refused();
  clock.Skip(RejectedPeers::kPatience);
  Pump([&] { return RawClosed(raw.get()); });
}

TEST_F(RefusedPeer, OldestOfTooManyIsClosedAtOnce) {
  std::vector<UniqueFd> peers;
  while (peers.size() <= RejectedPeers::kMost) peers.push_back(Refused());
  EXPECT_TRUE(RawClosed(peers.front().get()));
}

TEST_F(RefusedPeer, IsClosedWithTheManager) {
  const UniqueFd raw = Refused();
  p.cm.reset();
  EXPECT_TRUE(RawClosed(raw.get()));
  clock.Skip(RejectedPeers::kPatience);
  Settle();  // Its timer is gone.
}

TEST_F(TcpMode, ListenerOnTheUnspecifiedAddressHoldsEveryAddressOfItsAdapter) {
  Open(p, 2, [](Options& options) {
    Tcp(options);
    options.adapters[0].addresses.push_back(TestAddress(3));
  });
  Reserve(p, 7, Address::V4({0, 0, 0, 0}, 7000));
  p.cm->Listen(EndpointId{7}, "soft0", Address::V4({0, 0, 0, 0}, 7000));
  EXPECT_TRUE(RawConnect(TestAddress(2, 7000)));
  EXPECT_TRUE(RawConnect(TestAddress(3, 7000)));
  EXPECT_FALSE(RawConnect(TestAddress(4, 7000)));
}

TEST_F(TcpMode, CloseWithoutAnAnswerIsARefusal) {
  Open(a, 1, Tcp);
  const UniqueFd foreign = RawListen(TestAddress(9, 7000));
  Reserve(a, 1, TestAddress(1, 50001));
  a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
  UniqueFd accepted;
  Pump([&] {
    accepted.reset(accept4(foreign.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return static_cast<bool>(accepted);
  });
  accepted.reset();
  const Recorded seen = Next(a);
  EXPECT_EQ(seen.kind, Recorded::kFailed);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionRefused);
}

TEST_F(TcpMode, SecondConnectionWithTheSame4TupleIsRefused) {
  OpenBoth(Tcp);
  Reserve(p, 7, TestAddress(2, 7000));
  p.cm->Listen(EndpointId{7}, "soft0", TestAddress(2, 7000));
  Reserve(a, 1, TestAddress(1, 50001));
  Request(1);
  ConnectParams again = To(TestAddress(1, 50001), TestAddress(2, 7000), 2);
  again.endpoint = EndpointId{1};
  a.cm->Connect(again);
  const Recorded seen = Next(a);
  EXPECT_EQ(seen.id, CmId{2});
  EXPECT_EQ(seen.status.code(), StatusCode::kAddressAlreadyExists);
}

TEST_F(TcpMode, ListedNetworksUseTcpModeOnASeparateAdapter) {
  OpenBoth([](Options& options) {
    // This host uses separate mode; only the other host is listed as foreign.
    options.adapters[0].tcp_networks = {{TestAddress(1), 32}, {TestAddress(2), 32}};
  });
  EXPECT_TRUE(a.cm->adapters()[0].reserve_ports);
  EXPECT_EQ(a.cm->adapters()[0].mode, "separate");
  Reserve(p, 7, TestAddress(2, 7000));
  p.cm->Listen(EndpointId{7}, "soft0", TestAddress(2, 7000));
  Reserve(a, 1, TestAddress(1, 50001));
  const CmId inbound = Reply();
  a.cm->Confirm(CmId{1});
  EXPECT_EQ(Next(a).kind, Recorded::kEstablished);
  EXPECT_EQ(Next(p).kind, Recorded::kEstablished);
  EXPECT_EQ(LocalAddressOf(p.cm->TakeHandOff(inbound)->fds[0].get()), TestAddress(2, 7000));
  // A connection from an address that is not listed is closed at once.
  UniqueFd raw(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  std::size_t length = TestAddress(5).ToSockaddr(&storage);
  ASSERT_EQ(bind(raw.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
  length = TestAddress(2, 7000).ToSockaddr(&storage);
  ASSERT_EQ(connect(raw.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
  Pump([&] { return RawClosed(raw.get()); });
}

// Another program of this host that tries every way to get the port.
int Thefts(const Address& at) {
  int thefts = 0;
  for (const bool wildcard : {false, true}) {
    for (const int option : {0, SO_REUSEADDR, SO_REUSEPORT}) {
      UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const int on = 1;
      if (option != 0) setsockopt(fd.get(), SOL_SOCKET, option, &on, sizeof on);
      sockaddr_storage storage{};
      const Address wanted = wildcard ? Address::V4({}, at.port()) : at;
      const auto length = static_cast<socklen_t>(wanted.ToSockaddr(&storage));
      thefts += bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) == 0;
    }
  }
  UniqueFd both(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));  // IPv4, too.
  sockaddr_storage storage{};
  const auto length = static_cast<socklen_t>(Address::V6({}, at.port()).ToSockaddr(&storage));
  const int on = 1, off = 0;
  setsockopt(both.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return thefts + (bind(both.get(), reinterpret_cast<const sockaddr*>(&storage), length) == 0);
}

TEST_F(SoftCm, KeptPortIsNeverFreeWhileItChangesHands) {
  Open(p, 2, Tcp);
  EXPECT_TRUE(p.cm->adapters()[0].keep_ports);
  const Address at = TestAddress(2, 7000), wide = Address::V4({}, 7000);
  const std::size_t idle = CountDescriptors();
  const auto reserve = [&](std::uint64_t id, const Address& local) {
    p.cm->Reserve(EndpointId{id}, "soft0", local);
    return Next(p).status;
  };
  ASSERT_TRUE(reserve(1, at).ok());  // Not held yet.
  EXPECT_EQ(Thefts(at), 0);
  ASSERT_TRUE(reserve(2, at).ok()) << "its owner is back";
  p.cm->Release(EndpointId{1});
  EXPECT_EQ(Thefts(at), 0);
  EXPECT_FALSE(RawConnect(at)) << "it does not listen";
  ASSERT_TRUE(reserve(3, wide).ok()) << "under a reservation, say";
  p.cm->Listen(EndpointId{3}, "soft0", wide);
  EXPECT_TRUE(RawConnect(at));
  EXPECT_EQ(Thefts(at), 0);
  p.cm->Release(EndpointId{3});
  EXPECT_FALSE(RawConnect(at)) << "held as before, and nobody listens";
  EXPECT_EQ(Thefts(at), 0);
  p.cm->Listen(EndpointId{2}, "soft0", at);
  EXPECT_TRUE(RawConnect(at));
  p.cm->Release(EndpointId{2});
  // Three tries use SO_REUSEADDR. A connection of any test in TIME_WAIT on this port keeps it from the other
  // tries.
  Pump([&] { return Thefts(at) >= 3; });
  EXPECT_LE(CountDescriptors(), idle);
  // In the other direction, the broker cannot take the port of another program.
  const UniqueFd program = RawListen(at);
  for (const Address& local : {at, wide}) {
    const Status taken = reserve(4, local);
    EXPECT_EQ(taken.code(), StatusCode::kSharingViolation);
    EXPECT_NE(taken.message().find("TCP " + at.ToString() + " is in use by another program"),
              std::string::npos)
        << taken.message();
  }
}

}  // namespace
}  // namespace nd::provider::soft
