// SPDX-License-Identifier: Apache-2.0
// One connection manager after another on the same listening sockets, as over a restart of the broker.
#include <gtest/gtest.h>

#include <fcntl.h>

#include <map>

#include "base/os/given_socket.h"
#include "base/os/kept_sockets.h"
#include "base/os/socket.h"
#include "provider/soft/cm/cm_test_util.h"

namespace nd::provider::soft {
namespace {

// A fd store without systemd. Copies are closed at Restart(), because systemd needs a moment for a message.
class Store final : public os::KeptSockets {
 public:
  bool keeps() const override { return true; }
  UniqueFd Take(const os::NetworkAddress& address) override {
    auto found = left_.extract(address);
    return found ? std::move(found.mapped()) : UniqueFd();
  }
  bool Keep(const os::NetworkAddress& address, int fd) override {
    kept_[address] = Copy(fd);
    return true;
  }
  void Drop(const os::NetworkAddress& address) override {
    late_.push_back(std::move(kept_[address]));
    kept_.erase(address);
  }
  void DropUnclaimed() override { left_.clear(); }

  // The process that used this store is gone.
  void Restart() {
    late_.clear();
    left_.clear();
    for (const auto& [address, fd] : kept_) left_[address] = Copy(fd.get());
  }
  std::size_t size() const { return kept_.size(); }

 private:
  static UniqueFd Copy(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
  std::map<os::NetworkAddress, UniqueFd> kept_, left_;
  std::vector<UniqueFd> late_;
};

class KeptListeners : public CmFixture {
 protected:
  void OpenKept(Host& host, bool tcp_mode) {
    Options options;
    options.adapters.emplace_back();
    options.adapters[0].addresses = {TestAddress(12)};
    options.adapters[0].tcp_mode = tcp_mode;
    auto made = MakeSoftCm(options, loop, host.sink, &store_);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    host.cm = std::move(made).value();
  }
  void Restart(Host& host, bool tcp_mode) {
    EXPECT_TRUE(host.cm->LeaveListeners());
    host.cm.reset();
    store_.Restart();
    // While no broker runs.
    waiting_ = RawConnect(TestAddress(12, tcp_mode ? 7000 : 4794));
    ASSERT_TRUE(waiting_) << "refused while no broker runs";
    OpenKept(host, tcp_mode);
  }
  void ReserveAndListen(Host& host, std::uint16_t number) {
    host.cm->Reserve(EndpointId{number}, "soft0", TestAddress(12, 7000));
    ASSERT_TRUE(Next(host).status.ok());
    host.cm->Listen(EndpointId{number}, "soft0", TestAddress(12, 7000));
  }

  Store store_;
  UniqueFd waiting_;
};

TEST_F(KeptListeners, TheSharedPortTakesConnectionsWhileNoBrokerRuns) {
  Host p;
  OpenKept(p, false);
  EXPECT_EQ(store_.size(), 1u);
  for (int i = 0; i < 3; ++i) {
    Restart(p, false);
    Pump([&] { return p.cm->handshakes() == 1; });
    EXPECT_EQ(store_.size(), 1u);
    waiting_.reset();
    Pump([&] { return p.cm->handshakes() == 0; });
  }
}

TEST_F(KeptListeners, AfterLeavingNothingIsAccepted) {
  Host p;
  OpenKept(p, false);
  EXPECT_TRUE(p.cm->LeaveListeners());
  const UniqueFd late = RawConnect(TestAddress(12, 4794));
  EXPECT_TRUE(late);
  Settle();
  EXPECT_EQ(p.cm->handshakes(), 0u) << "it waits for the next broker";
}

TEST_F(KeptListeners, APortOfTcpModeKeepsItsQueueUntilItsListenerIsBack) {
  Host p;
  OpenKept(p, true);
  EXPECT_EQ(store_.size(), 0u) << "nobody listens";
  ReserveAndListen(p, 1);
  EXPECT_EQ(store_.size(), 1u);
  Restart(p, true);
  // The endpoint of the lease comes first, then that of the application that takes the port over.
  p.cm->Reserve(EndpointId{2}, "soft0", TestAddress(12, 7000));
  ASSERT_TRUE(Next(p).status.ok());
  Settle();
  EXPECT_EQ(p.cm->handshakes(), 0u);
  ReserveAndListen(p, 3);
  p.cm->Release(EndpointId{2});
  Pump([&] { return p.cm->handshakes() == 1; });
}

TEST_F(KeptListeners, APortWhoseListenerDoesNotComeBackIsFreed) {
  Host p;
  OpenKept(p, true);
  ReserveAndListen(p, 1);
  Restart(p, true);
  p.cm->Reserve(EndpointId{2}, "soft0", TestAddress(12, 7000));
  ASSERT_TRUE(Next(p).status.ok());
  p.cm->Release(EndpointId{2});
  EXPECT_EQ(store_.size(), 0u);
  Pump([&] { return RawClosed(waiting_.get()); });
  EXPECT_FALSE(RawConnect(TestAddress(12, 7000)));
}

TEST_F(KeptListeners, AListenerMayEndAndListenAgainAtOnce) {
  Host p;
  OpenKept(p, true);
  for (std::uint16_t i = 1; i < 5; ++i) {
    ReserveAndListen(p, i);
    EXPECT_TRUE(RawConnect(TestAddress(12, 7000)));
    p.cm->Release(EndpointId{i});
    EXPECT_FALSE(RawConnect(TestAddress(12, 7000)));
  }
  // Nothing of the listener stays.
  store_.Restart();
  clock.Skip(std::chrono::seconds(1));
  Settle();
  EXPECT_TRUE(HoldPort(TestAddress(12, 7000)).ok());
}

TEST_F(KeptListeners, SomebodyElseMayConnectFromThePortOfALeasedListener) {
  Host p;
  OpenKept(p, true);
  ReserveAndListen(p, 1);
  Restart(p, true);
  p.cm->Reserve(EndpointId{2}, "soft0", TestAddress(12, 7000));
  ASSERT_TRUE(Next(p).status.ok());
  ConnectParams params;
  params.id = CmId{1};
  params.endpoint = EndpointId{2};
  params.adapter = "soft0";
  params.local = TestAddress(12, 7000);
  params.remote = TestAddress(9, 7001);
  p.cm->Connect(params);
  const Recorded answer = Next(p);
  EXPECT_EQ(answer.status.code(), StatusCode::kConnectionRefused)
      << "the wire was reached: " << answer.status.ToString();
}

TEST_F(KeptListeners, ASocketThatNoAdapterWantsIsDropped) {
  Host p;
  OpenKept(p, true);
  ReserveAndListen(p, 1);
  Restart(p, true);
  clock.Skip(std::chrono::seconds(2));
  Settle();
  EXPECT_FALSE(store_.Take({TestAddress(12, 7000)}));
}

// The network of the test stands for that of a pod. Only its IPv6 sockets are given, because the adapter of
// the host listens on IPv4.
class KeptListenersOfPods : public KeptListeners {
 protected:
  void SetUp() override {
    UniqueFd probe = RawListen(Pod(0));
    if (!probe) GTEST_SKIP() << "this host has no IPv6 loopback address";
    port_ = os::LocalAddress(probe.get()).port();
  }
  static Address Pod(std::uint16_t port) {
    std::array<std::uint8_t, 16> loopback{};
    loopback[15] = 1;
    return Address::V6(loopback, port);
  }
  void OpenBroker(Host& host) {
    Options options;
    options.adapters.emplace_back();
    options.adapters[0].addresses = {TestAddress(12)};
    options.adapters[0].tcp_port = port_;
    auto made = MakeSoftCm(options, loop, host.sink, &store_);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    host.cm = std::move(made).value();
  }
  Status OpenNetwork(Host& host) {
    std::vector<UniqueFd> sockets;
    sockets.push_back(os::MakeGiven(os::GivenKind::kRoutes));
    sockets.push_back(os::MakeGiven(os::GivenKind::kTcp6));
    network_ = os::NetworkOf(sockets[1].get());
    return host.cm->OpenNetwork(network_, std::move(sockets));
  }

  std::uint16_t port_ = 0;
  std::uint64_t network_ = 0;
};

TEST_F(KeptListenersOfPods, ConnectionsWaitUntilAClientGivesSocketsAgain) {
  Host p;
  OpenBroker(p);
  ASSERT_TRUE(OpenNetwork(p).ok());
  EXPECT_EQ(store_.size(), 2u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(p.cm->LeaveListeners());
    p.cm.reset();
    store_.Restart();
    const UniqueFd early = RawConnect(Pod(port_));
    ASSERT_TRUE(early) << "refused while no broker runs";
    OpenBroker(p);
    const UniqueFd later = RawConnect(Pod(port_));
    ASSERT_TRUE(later) << "refused before a client of the network is back";
    Settle();
    EXPECT_EQ(p.cm->handshakes(), 0u);
    ASSERT_TRUE(OpenNetwork(p).ok());
    Pump([&] { return p.cm->handshakes() == 2; });
    EXPECT_EQ(store_.size(), 2u);
  }
}

TEST_F(KeptListenersOfPods, NobodyComesBackSoPeersAreRefused) {
  Host p;
  OpenBroker(p);
  ASSERT_TRUE(OpenNetwork(p).ok());
  p.cm.reset();
  store_.Restart();
  OpenBroker(p);
  clock.Skip(std::chrono::seconds(2));
  Settle();
  EXPECT_FALSE(store_.Take({Address::V6({}, port_), network_}));
}

TEST_F(KeptListenersOfPods, ClosedNetworkIsNotKeptAndOpensAgainAtOnce) {
  Host p;
  OpenBroker(p);
  for (int i = 0; i < 3; ++i) {
    const Status opened = OpenNetwork(p);
    ASSERT_TRUE(opened.ok()) << "after " << i << ": " << opened.ToString();
    p.cm->CloseNetwork(network_);
    EXPECT_EQ(store_.size(), 1u) << "that of the host";
    EXPECT_FALSE(RawConnect(Pod(port_)));
  }
}

}  // namespace
}  // namespace nd::provider::soft
