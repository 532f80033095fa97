// SPDX-License-Identifier: Apache-2.0
// Answers that are kept, in a network namespace whose routes the test changes.
#include "provider/soft/cm/route.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

namespace nd::provider::soft {
namespace {

class RouteFinderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "no right to make a network namespace";
    if (std::system("ip link set lo up 2>/dev/null") != 0) GTEST_SKIP() << "no ip command";
    for (const Address& own : adapter_.addresses) Ip("addr add " + own.IpToString() + " dev lo");
    finder_.emplace();
  }
  static void Ip(const std::string& change) { ASSERT_EQ(std::system(("ip " + change).c_str()), 0) << change; }
  // The source address, or the reason why there is none.
  std::string Source(const std::string& remote) {
    const Result<Address> source = finder_->Find(adapter_, *Address::Parse(remote), moment_++);
    return source.ok() ? source->IpToString() : Name(source.code());
  }
  static std::string Name(StatusCode code) {
    return code == StatusCode::kNetworkUnreachable ? "no route" : "?";
  }

  Adapter adapter_ = [] {
    Adapter adapter;
    adapter.addresses = {Address::V4({10, 1, 0, 1}), Address::V4({10, 1, 0, 2}), *Address::Parse("fd01::1"),
                         *Address::Parse("fd01::2")};
    return adapter;
  }();
  std::optional<RouteFinder> finder_;
  std::uint64_t moment_ = 0;
};

// The second answer of each pair is a kept one.
TEST_F(RouteFinderTest, NoticesAChangeBeforeItsNextAnswer) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Source("10.9.0.1"), "no route");
    EXPECT_EQ(Source("10.9.0.1"), "no route");
    Ip("route add 10.9.0.0/16 dev lo src 10.1.0.1");
    EXPECT_EQ(Source("10.9.0.1"), "10.1.0.1");
    EXPECT_EQ(Source("10.9.0.1"), "10.1.0.1");
    Ip("route replace 10.9.0.0/16 dev lo src 10.1.0.2");
    EXPECT_EQ(Source("10.9.0.1"), "10.1.0.2");
    EXPECT_EQ(Source("10.9.0.1"), "10.1.0.2");
    Ip("route del 10.9.0.0/16");
  }
}

TEST_F(RouteFinderTest, LooksForChangesOnceInEachMoment) {
  const auto source = [this](std::uint64_t moment) {
    return finder_->Find(adapter_, *Address::Parse("10.9.0.1"), moment).ok();
  };
  EXPECT_FALSE(source(7));
  Ip("route add 10.9.0.0/16 dev lo src 10.1.0.1");
  EXPECT_FALSE(source(7));
  EXPECT_TRUE(source(8));
}

TEST_F(RouteFinderTest, NoticesEachKindOfChange) {
  Ip("route add 10.9.0.0/16 dev lo src 10.1.0.2");
  EXPECT_EQ(Source("10.9.0.1"), "10.1.0.2");
  Ip("rule add to 10.9.0.0/16 unreachable");
  EXPECT_EQ(Source("10.9.0.1"), "no route");
  Ip("rule del to 10.9.0.0/16 unreachable");
  EXPECT_EQ(Source("10.9.0.1"), "10.1.0.2");
  Ip("addr del 10.1.0.2/32 dev lo");  // Takes the route along.
  EXPECT_EQ(Source("10.9.0.1"), "no route");
  Ip("route add 10.9.0.0/16 dev lo src 10.1.0.1");
  EXPECT_EQ(Source("10.9.0.1"), "10.1.0.1");
  Ip("link set lo down");
  EXPECT_EQ(Source("10.9.0.1"), "no route");
}

TEST_F(RouteFinderTest, NoticesChangesOfIpv6) {
  Ip("route add fd09::/16 dev lo src fd01::1");
  EXPECT_EQ(Source("fd09::9"), "fd01::1");
  EXPECT_EQ(Source("fd09::9"), "fd01::1");
  Ip("-6 route replace fd09::/16 dev lo src fd01::2");
  EXPECT_EQ(Source("fd09::9"), "fd01::2");
  Ip("-6 rule add to fd09::/16 unreachable");
  EXPECT_EQ(Source("fd09::9"), "no route");
}

TEST_F(RouteFinderTest, KeepsAnswersOfManyDestinations) {
  Ip("route add 10.9.0.0/16 dev lo src 10.1.0.1");
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(Source("10.9." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1)), "10.1.0.1");
  }
  Ip("route del 10.9.0.0/16");
  EXPECT_EQ(Source("10.9.0.1"), "no route");
  EXPECT_EQ(Source("10.9.7.250"), "no route");
}

}  // namespace
}  // namespace nd::provider::soft
