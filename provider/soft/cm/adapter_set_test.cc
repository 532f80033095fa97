// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/adapter_set.h"

#include <gtest/gtest.h>

#include <functional>

#include "provider/soft/cm/host_addresses.h"

namespace nd::provider::soft {
namespace {

Address Ip(const char* text) {
  return *Address::Parse(text);
}

Options TwoAdapters() {
  Options options;
  options.adapters.resize(2);
  options.adapters[0].name = "fast";
  options.adapters[0].addresses = {Ip("10.0.0.1")};
  options.adapters[1].name = "rest";
  return options;
}

TEST(AdapterSet, FollowingAdapterHasTheUnclaimedAddresses) {
  auto set = AdapterSet::Make(TwoAdapters(), {Ip("127.0.0.1"), Ip("10.0.0.1"), Ip("fd00::1")});
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->Find("rest")->addresses, (std::vector{Ip("127.0.0.1"), Ip("fd00::1")}));
  EXPECT_EQ(set->Owner(Ip("10.0.0.1:77"))->options.name, "fast");
  EXPECT_EQ(set->Owner(Ip("10.0.0.2")), nullptr);
  EXPECT_FALSE(set->Refresh({Ip("fd00::1"), Ip("127.0.0.1"), Ip("10.0.0.1")}));
  EXPECT_TRUE(set->Refresh({Ip("127.0.0.1")}));
  EXPECT_EQ(set->Find("rest")->addresses, std::vector{Ip("127.0.0.1")});
  EXPECT_EQ(set->Find("fast")->addresses, std::vector{Ip("10.0.0.1")});
  EXPECT_NE(set->Describe()[0].info.adapter_id, set->Describe()[1].info.adapter_id);
}

TEST(AdapterSet, RefusesContradictoryOptions) {
  const auto code = [](const std::function<void(Options&)>& change) {
    Options options = TwoAdapters();
    change(options);
    return AdapterSet::Make(options, {}).code();
  };
  const auto kBad = StatusCode::kInvalidParameter;
  EXPECT_EQ(code([](Options&) {}), StatusCode::kSuccess);
  EXPECT_EQ(code([](Options& o) { o.adapters[1].name = "fast"; }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[0].name.clear(); }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[0].addresses.clear(); }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[1].addresses = {Ip("10.0.0.1")}; }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[0].addresses = {Ip("0.0.0.0")}; }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[0].addresses = {Ip("224.0.0.1")}; }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[0].tcp_port = 0; }), kBad);
  EXPECT_EQ(code([](Options& o) { o.adapters[0].tcp_networks = {{Ip("10.0.0.0"), 33}}; }), kBad);
}

TEST(AdapterSet, NetworksMatchByPrefix) {
  EXPECT_TRUE(Contains({Ip("10.1.0.0"), 16}, Ip("10.1.255.1")));
  EXPECT_FALSE(Contains({Ip("10.1.0.0"), 16}, Ip("10.2.0.1")));
  EXPECT_TRUE(Contains({Ip("10.1.16.0"), 20}, Ip("10.1.31.1")));
  EXPECT_FALSE(Contains({Ip("10.1.16.0"), 20}, Ip("10.1.32.1")));
  EXPECT_TRUE(Contains({Ip("0.0.0.0"), 0}, Ip("1.2.3.4")));
  EXPECT_FALSE(Contains({Ip("0.0.0.0"), 0}, Ip("::1")));
  EXPECT_TRUE(Contains({Ip("fd00::"), 8}, Ip("fdff::1")));
  EXPECT_TRUE(Contains({Ip("1.2.3.4"), 32}, Ip("1.2.3.4")));
  EXPECT_FALSE(Contains({Ip("1.2.3.4"), 32}, Ip("1.2.3.5")));
}

TEST(AdapterSet, ModeDependsOnTheDestination) {
  Options options = TwoAdapters();
  options.adapters[0].tcp_networks = {{Ip("10.9.0.0"), 16}};
  auto set = AdapterSet::Make(options, {});
  EXPECT_EQ(set->Find("fast")->ModeFor(Ip("10.9.1.1")), PortMode::kTcp);
  EXPECT_EQ(set->Find("fast")->ModeFor(Ip("10.8.1.1")), PortMode::kSeparate);
  EXPECT_TRUE(set->Describe()[0].reserve_ports);
  EXPECT_FALSE(set->Describe()[1].reserve_ports);
}

TEST(HostAddresses, ListsLoopback) {
  const std::vector<Address> all = ListHostAddresses();
  EXPECT_NE(std::find(all.begin(), all.end(), Ip("127.0.0.1")), all.end());
  for (const Address& address : all) EXPECT_EQ(address.port(), 0);
}

TEST(HostAddresses, WatchesWithoutDisturbingTheLoop) {
  SystemClock clock;
  EventLoop loop(clock);
  HostAddressWatch watch(loop, [] {});
  EXPECT_TRUE(watch.watching());
  loop.RunOnce(Duration::zero());
}

}  // namespace
}  // namespace nd::provider::soft
