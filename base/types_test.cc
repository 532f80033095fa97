// SPDX-License-Identifier: Apache-2.0
#include "nd/types.h"

#include <gtest/gtest.h>

namespace nd {
namespace {

TEST(Address, ParsesAndPrints) {
  for (const char* text : {"1.2.3.4:5", "0.0.0.0:65535", "[::1]:7000", "[2001:db8::2]:0"}) {
    const auto address = Address::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(Address::Parse("10.1.2.3")->ToString(), "10.1.2.3:0");
  EXPECT_EQ(Address::Parse("::1")->IpToString(), "::1");
  EXPECT_EQ(Address::Parse("[::1]")->port(), 0);
}

TEST(Address, RefusesWithTheReason) {
  for (const char* text :
       {"", "host", "1.2.3", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:5x", "[::1", "[::1]7", "[::1]:"}) {
    const auto address = Address::Parse(text);
    EXPECT_EQ(address.code(), StatusCode::kInvalidAddress) << text;
    EXPECT_NE(address.status().message().find("expected"), std::string::npos);
  }
}

TEST(Address, SockaddrRoundTripAndTruncation) {
  alignas(8) std::byte storage[28];
  for (const char* text : {"127.0.0.2:4794", "[fe80::1]:1"}) {
    const Address address = *Address::Parse(text);
    const std::size_t length = address.ToSockaddr(storage);
    ASSERT_EQ(length, address.family() == Address::Family::kIpv4 ? 16u : 28u);
    EXPECT_EQ(Address::FromSockaddr(reinterpret_cast<sockaddr*>(storage), length), address);
    // Every length without all bytes of the IP gives a malformed address.
    for (std::size_t cut = 0; cut < (address.family() == Address::Family::kIpv4 ? 8u : 24u); ++cut) {
      EXPECT_FALSE(Address::FromSockaddr(reinterpret_cast<sockaddr*>(storage), cut).well_formed()) << cut;
    }
  }
  EXPECT_FALSE(Address::FromSockaddr(nullptr, 16).well_formed());
  EXPECT_EQ(Address().ToSockaddr(storage), 0u);
}

TEST(Address, Kinds) {
  EXPECT_TRUE(Address::Parse("0.0.0.0:1")->unspecified());
  EXPECT_TRUE(Address::Parse("::")->unspecified());
  EXPECT_FALSE(Address().unspecified());
  EXPECT_TRUE(Address::Parse("224.0.0.1")->multicast());
  EXPECT_TRUE(Address::Parse("255.255.255.255")->multicast());
  EXPECT_TRUE(Address::Parse("ff02::1")->multicast());
  EXPECT_FALSE(Address::Parse("10.0.0.1")->multicast());
  EXPECT_TRUE(Address::Parse("10.0.0.1:1")->same_ip(*Address::Parse("10.0.0.1:2")));
}

TEST(Address, OrdersByFamilyThenIpThenPort) {
  EXPECT_LT(*Address::Parse("10.0.0.1:2"), *Address::Parse("10.0.0.1:3"));
  EXPECT_LT(*Address::Parse("10.0.0.1:9"), *Address::Parse("10.0.0.2:1"));
}

}  // namespace
}  // namespace nd
