// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/datagram_header.h"

#include <netinet/in.h>
#include <netinet/ip.h>

#include <cstring>

#include "verbs-lib/gid.h"

namespace nd::verbs_lib {
namespace {

constexpr std::uint32_t kMagic = 0x4e444255;  // "NDBU"
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kImmediate = 0x1, kSolicited = 0x2;
constexpr std::uint8_t kHopLimit = 64;

void Put(std::byte* at, std::uint32_t value) {
  const std::uint32_t ordered = htonl(value);
  std::memcpy(at, &ordered, sizeof ordered);
}

std::uint32_t Get(const std::byte* at) {
  std::uint32_t ordered;
  std::memcpy(&ordered, at, sizeof ordered);
  return ntohl(ordered);
}

std::uint16_t ChecksumOf(const iphdr& header) {
  std::array<std::uint16_t, sizeof header / 2> words;
  std::memcpy(words.data(), &header, sizeof header);
  std::uint32_t sum = 0;
  for (const std::uint16_t word : words) sum += word;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

std::array<std::byte, kDatagramHeaderSize> EncodeDatagramHeader(const DatagramHeader& header) {
  std::array<std::byte, kDatagramHeaderSize> out{};
  Put(out.data(), kMagic);
  out[4] = std::byte{kVersion};
  out[5] = std::byte((header.immediate ? kImmediate : 0) | (header.solicited ? kSolicited : 0));
  Put(out.data() + 8, header.source_number);
  Put(out.data() + 12, header.qkey);
  Put(out.data() + 16, header.immediate.value_or(0));
  return out;
}

std::optional<DatagramHeader> ParseDatagramHeader(std::span<const std::byte> datagram,
                                                  std::uint16_t source_port) {
  if (datagram.size() < kDatagramHeaderSize || datagram.size() > kDatagramHeaderSize + kMaxDatagramPayload) {
    return std::nullopt;
  }
  const auto flags = std::to_integer<std::uint8_t>(datagram[5]);
  if (Get(datagram.data()) != kMagic || datagram[4] != std::byte{kVersion} ||
      (flags & ~(kImmediate | kSolicited)) != 0 || datagram[6] != std::byte{} || datagram[7] != std::byte{}) {
    return std::nullopt;
  }
  DatagramHeader header;
  header.source_number = Get(datagram.data() + 8);
  header.qkey = Get(datagram.data() + 12);
  if ((flags & kImmediate) != 0) header.immediate = Get(datagram.data() + 16);
  header.solicited = (flags & kSolicited) != 0;
  if (header.source_number != kDatagramNumbers + source_port) return std::nullopt;
  return header;
}

ibv_grh RouteHeaderOf(const Address& source, const Address& destination, std::size_t payload) {
  ibv_grh header{};
  if (source.family() != Address::Family::kIpv4) {
    header.version_tclass_flow = htonl(6u << 28);
    header.paylen = htons(static_cast<std::uint16_t>(payload));
    header.next_hdr = IPPROTO_UDP;
    header.hop_limit = kHopLimit;
    header.sgid = GidOf(source);
    header.dgid = GidOf(destination);
    return header;
  }
  iphdr ip{};
  ip.version = 4;
  ip.ihl = sizeof ip / 4;
  ip.ttl = kHopLimit;
  ip.protocol = IPPROTO_UDP;
  ip.tot_len = htons(static_cast<std::uint16_t>(sizeof ip + payload));
  std::memcpy(&ip.saddr, source.ip().data(), sizeof ip.saddr);
  std::memcpy(&ip.daddr, destination.ip().data(), sizeof ip.daddr);
  ip.check = ChecksumOf(ip);
  std::memcpy(reinterpret_cast<std::byte*>(&header) + sizeof header - sizeof ip, &ip, sizeof ip);
  return header;
}

}  // namespace nd::verbs_lib
