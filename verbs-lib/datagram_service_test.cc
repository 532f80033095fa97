// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/datagram_service.h"

#include <gtest/gtest.h>

#include <array>

namespace nd::verbs_lib {
namespace {

TEST(DatagramService, StandsInFrontOfThePrivateData) {
  const std::array data{std::byte{7}, std::byte{9}};
  const DatagramService service{0x80c001, kDatagramServiceQkey};
  const auto encoded = EncodeDatagramService(service, data);
  const std::array expected{std::byte{'N'},  std::byte{'D'},  std::byte{'B'},  std::byte{'Q'},
                            std::byte{0},    std::byte{0x80}, std::byte{0xc0}, std::byte{0x01},
                            std::byte{0x01}, std::byte{0x23}, std::byte{0x45}, std::byte{0x67},
                            std::byte{7},    std::byte{9}};
  EXPECT_TRUE(std::equal(encoded.begin(), encoded.end(), expected.begin(), expected.end()));
  EXPECT_EQ(ParseDatagramService(encoded), service);
}

TEST(DatagramService, OtherPrivateDataIsNone) {
  auto encoded = EncodeDatagramService({1, 2}, {});
  EXPECT_EQ(ParseDatagramService({}), std::nullopt);
  EXPECT_EQ(ParseDatagramService(std::span(encoded).first(kDatagramServiceSize - 1)), std::nullopt);
  encoded[3] = std::byte{'U'};
  EXPECT_EQ(ParseDatagramService(encoded), std::nullopt);
}

}  // namespace
}  // namespace nd::verbs_lib
