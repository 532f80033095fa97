// SPDX-License-Identifier: Apache-2.0
// Sockets of clients: those whose maker makes the broker wait, and the facts that the kernel tells through
// them. The network namespace is that of the test. tests/netns/pods.sh has namespaces of their own.
#include "provider/soft/cm/served_networks.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/os/given_socket.h"
#include "base/os/socket.h"
#include "provider/soft/cm/host_addresses.h"

namespace nd::provider::soft {
namespace {

class SharedTcpTest : public ::testing::Test {
 protected:
  // A listening socket, which blocks.
  static UniqueFd Listening(int backlog) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage name{};
    const auto length = static_cast<socklen_t>(Address::V4({127, 0, 0, 1}).ToSockaddr(&name));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), length), 0);
    EXPECT_EQ(::listen(fd.get(), backlog), 0);
    return fd;
  }

  SystemClock clock_;
  EventLoop loop_{clock_};
  os::KeptSockets kept_;
  SystemTcp tcp_{loop_, kept_};
};

TEST_F(SharedTcpTest, AConnectThatWaitsEndsAndIsReported) {
  const UniqueFd listening = Listening(0);
  const Address at = os::LocalAddress(listening.get());
  // More than it has room for, so that the next one gets no answer.
  std::vector<std::unique_ptr<TcpSocket>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(tcp_.Adopt(os::MakeGiven(os::GivenKind::kTcp4)));
    others.back()->Connect(at);
  }
  int waited = 0;
  UniqueFd blocking(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::unique_ptr<TcpSocket> shared = tcp_.AdoptShared(std::move(blocking), [&waited] { ++waited; });
  EXPECT_EQ(shared->Connect(at), EINTR);
  EXPECT_EQ(waited, 1);
}

TEST_F(SharedTcpTest, AnAcceptThatWaitsEnds) {
  const std::unique_ptr<TcpListener> shared = tcp_.AdoptSharedListener(Listening(8));
  const TcpListener::Accepted accepted = shared->Accept();
  EXPECT_EQ(accepted.result, os::Accepted::Result::kNone);
  EXPECT_EQ(accepted.error, EINTR);
}

TEST_F(SharedTcpTest, SharedSocketsConnect) {
  const UniqueFd listening = Listening(8);
  bool waited = false;
  UniqueFd given = os::MakeGiven(os::GivenKind::kTcp4);
  ASSERT_TRUE(os::BindGiven(given.get(), Address::V4({127, 0, 0, 1})).ok());
  const std::unique_ptr<TcpSocket> shared = tcp_.AdoptShared(std::move(given), [&waited] { waited = true; });
  EXPECT_EQ(shared->Connect(os::LocalAddress(listening.get())), EINPROGRESS);
  EXPECT_FALSE(waited);
}

TEST_F(SharedTcpTest, RouteSocketAnswersWithAddressesAndSources) {
  NetworkRoutes routes(loop_, os::MakeGiven(os::GivenKind::kRoutes), [] {});
  ASSERT_TRUE(routes.Open());
  const std::optional<std::vector<Address>> addresses = routes.Addresses();
  ASSERT_TRUE(addresses.has_value());
  // Those of interfaces that are down, too.
  for (const Address& address : ListHostAddresses()) {
    EXPECT_TRUE(std::ranges::binary_search(*addresses, address)) << address.ToString();
  }
  const Address loopback = Address::V4({127, 0, 0, 1});
  EXPECT_EQ(routes.SourceTowards(loopback).value_or(Address()), loopback);
  EXPECT_FALSE(routes.SourceTowards(Address()).has_value());
}

AdapterOptions Named(const std::string& name, std::uint8_t last) {
  AdapterOptions options;
  options.name = name;
  options.addresses = {Address::V4({127, 0, 0, last})};
  return options;
}

TEST(AdapterSetNetworks, StandForTheFirstAdapterInSeparateMode) {
  Options options;
  options.adapters = {Named("t", 2), Named("s", 3)};
  options.adapters[0].tcp_mode = true;
  options.adapters[1].tcp_port = 5000;
  options.adapters[1].tcp_networks = {{Address::V4({10, 0, 0, 0}), 8}};
  AdapterSet set = std::move(AdapterSet::Make(options, {}).value());
  const Address shared = Address::V4({127, 0, 0, 3}), pod = Address::V4({10, 1, 1, 1});
  const Adapter* const adapter = set.AddNetwork(7, {pod, shared});
  ASSERT_NE(adapter, nullptr);
  EXPECT_EQ(adapter->options.name, "s@7");
  EXPECT_EQ(adapter->options.tcp_port, 5000);
  EXPECT_FALSE(adapter->HoldsTcpPorts());
  EXPECT_EQ(set.AddNetwork(7, {}), nullptr);
  EXPECT_EQ(set.Find("s@7"), adapter);
  EXPECT_EQ(set.adapters().size(), 2u);
  EXPECT_EQ(set.Describe().size(), 3u);
  EXPECT_EQ(set.Describe().back().network, 7u);
  // Each network has its addresses.
  EXPECT_EQ(set.Owner(shared)->options.name, "s");
  EXPECT_EQ(set.Owner(shared, 7), adapter);
  EXPECT_EQ(set.Owner(pod), nullptr);
  EXPECT_EQ(set.Owner(pod, 8), nullptr);
  EXPECT_TRUE(set.RefreshNetwork(7, {pod}));
  EXPECT_FALSE(set.RefreshNetwork(7, {pod}));
  set.RemoveNetwork(7);
  EXPECT_EQ(set.Find("s@7"), nullptr);
}

TEST(AdapterSetNetworks, NeedSeparateMode) {
  Options options;
  options.adapters = {Named("t", 2)};
  options.adapters[0].tcp_mode = true;
  AdapterSet set = std::move(AdapterSet::Make(options, {}).value());
  EXPECT_FALSE(set.serves_networks());
  EXPECT_EQ(set.AddNetwork(7, {}), nullptr);
}

}  // namespace
}  // namespace nd::provider::soft
