// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/convert.h"

#include <gtest/gtest.h>

#include "daemon/shell/id_text.h"

namespace nd::service {
namespace {

const Address kV4 = Address::Parse("192.0.2.7:4420").value();
const Address kV6 = Address::Parse("[2001:db8::7]:65535").value();

TEST(Convert, AddressesRoundTrip) {
  for (const Address& address : {kV4, kV6, Address()}) {
    pb::Address message;
    ToProto(address, &message);
    EXPECT_EQ(FromProto(message), address) << address.ToString();
  }
}

TEST(Convert, MalformedAddressesStayMalformed) {
  const auto from = [](std::uint32_t family, std::string ip, std::uint32_t port) {
    pb::Address message;
    message.set_family(family);
    message.set_ip(ip);
    message.set_port(port);
    return FromProto(message);
  };
  EXPECT_TRUE(from(4, "abcd", 1).well_formed());
  EXPECT_FALSE(from(4, "abc", 1).well_formed());
  EXPECT_FALSE(from(6, std::string(15, 'a'), 1).well_formed());
  EXPECT_FALSE(from(6, std::string(17, 'a'), 1).well_formed()) << "must not be cut to fit";
  EXPECT_FALSE(from(6, std::string(60000, 'a'), 1).well_formed());
  EXPECT_FALSE(from(4, "abcd", 65536).well_formed()) << "must not wrap to port 0";
  EXPECT_FALSE(from(5, "abcd", 1).well_formed());
  EXPECT_FALSE(from(0x104, "abcd", 1).well_formed());
}

TEST(Convert, StatusesCarryEveryField) {
  pb::Status message;
  ToProto(Status(StatusCode::kConnectionRefused, "no", Detail::kBacklogFull, -7), &message);
  EXPECT_EQ(message.code(), static_cast<std::uint32_t>(StatusCode::kConnectionRefused));
  EXPECT_EQ(message.detail(), static_cast<std::uint32_t>(Detail::kBacklogFull));
  EXPECT_EQ(message.native(), -7);
  EXPECT_EQ(message.message(), "no");
}

TEST(IdText, RoundTripsAndRefusesEverythingElse) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0x3f2a000001000001}, ~std::uint64_t{0}}) {
    EXPECT_EQ(ParseId('c', IdText('c', value)), value);
  }
  for (const char* bad : {"", "c", "c-", "l-1", "c-g", "c-1 ", "c-12345678901234567", "c--1", "1"}) {
    EXPECT_FALSE(ParseId('c', bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace nd::service
