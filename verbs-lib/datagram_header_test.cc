// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/datagram_header.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace nd::verbs_lib {
namespace {

constexpr std::uint16_t kPort = 40001;

std::vector<std::byte> Datagram(std::size_t payload) {
  DatagramHeader header;
  header.source_number = kDatagramNumbers + kPort;
  header.qkey = 0x11111111;
  header.immediate = 0xdeadbeef;
  header.solicited = true;
  const auto encoded = EncodeDatagramHeader(header);
  std::vector<std::byte> out(encoded.begin(), encoded.end());
  out.resize(out.size() + payload);
  return out;
}

TEST(DatagramHeader, ReturnsWhatWasEncoded) {
  for (const std::size_t payload : {std::size_t{0}, std::size_t{1}, kMaxDatagramPayload}) {
    const auto header = ParseDatagramHeader(Datagram(payload), kPort);
    ASSERT_TRUE(header) << payload;
    EXPECT_EQ(header->source_number, kDatagramNumbers + kPort);
    EXPECT_EQ(header->qkey, 0x11111111u);
    EXPECT_EQ(header->immediate, 0xdeadbeefu);
    EXPECT_TRUE(header->solicited);
  }
}

TEST(DatagramHeader, AHeaderWithoutImmediateHasNone) {
  DatagramHeader header;
  header.source_number = kDatagramNumbers + kPort;
  const auto parsed = ParseDatagramHeader(EncodeDatagramHeader(header), kPort);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->immediate);
  EXPECT_FALSE(parsed->solicited);
}

TEST(DatagramHeader, HostileDatagramsAreRefused) {
  const struct {
    const char* what;
    std::function<void(std::vector<std::byte>&)> spoil;
  } rows[] = {
      {"empty", [](auto& d) { d.clear(); }},
      {"short", [](auto& d) { d.resize(kDatagramHeaderSize - 1); }},
      {"huge", [](auto& d) { d.resize(kDatagramHeaderSize + kMaxDatagramPayload + 1); }},
      {"magic", [](auto& d) { d[0] ^= std::byte{1}; }},
      {"version", [](auto& d) { d[4] = std::byte{2}; }},
      {"unknown flag", [](auto& d) { d[5] |= std::byte{0x80}; }},
      {"reserved bytes", [](auto& d) { d[7] = std::byte{1}; }},
      {"number of another port", [](auto& d) { d[11] ^= std::byte{1}; }},
      {"number of a connected queue pair", [](auto& d) { d[9] = std::byte{0}; }},
  };
  for (const auto& row : rows) {
    auto datagram = Datagram(100);
    row.spoil(datagram);
    EXPECT_FALSE(ParseDatagramHeader(datagram, kPort)) << row.what;
  }
}

TEST(DatagramHeader, AnyBytesAreParsedWithoutACrash) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    // Half of them begin as a true datagram.
    auto datagram = Datagram(random() % 64);
    if (i % 2 == 0) datagram.resize(random() % datagram.size());
    for (unsigned change = random() % 4; change != 0 && !datagram.empty(); --change) {
      datagram[random() % datagram.size()] = static_cast<std::byte>(random());
    }
    const auto header = ParseDatagramHeader(datagram, kPort);
    if (header) {
      EXPECT_EQ(header->source_number, kDatagramNumbers + kPort);
    }
  }
}

TEST(RouteHeader, AnIpv4MessageHasAnIpHeaderWithAValidChecksumInItsLastBytes) {
  const ibv_grh grh = RouteHeaderOf(Address::V4({192, 0, 2, 1}), Address::V4({192, 0, 2, 2}), 100);
  std::uint8_t ip[20];
  std::memcpy(ip, reinterpret_cast<const std::uint8_t*>(&grh) + 20, sizeof ip);
  EXPECT_EQ(ip[0], 0x45);
  EXPECT_EQ(ip[3], 120);
  EXPECT_EQ(std::string(ip + 12, ip + 20), std::string("\xc0\x00\x02\x01\xc0\x00\x02\x02", 8));
  std::uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
  EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
}

TEST(RouteHeader, AnIpv6MessageHasBothGids) {
  const Address from = Address::V6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  const Address to = Address::V6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  const ibv_grh grh = RouteHeaderOf(from, to, 100);
  EXPECT_EQ(ntohl(grh.version_tclass_flow) >> 28, 6u);
  EXPECT_EQ(grh.sgid.raw[15], 1);
  EXPECT_EQ(grh.dgid.raw[15], 2);
}

}  // namespace
}  // namespace nd::verbs_lib
