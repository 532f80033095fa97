// SPDX-License-Identifier: Apache-2.0
// Addresses in the form of the system: sockaddr.
#include <winsock2.h>
#include <ws2tcpip.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "nd/types.h"

namespace nd {

Address Address::FromSockaddr(const sockaddr* address, std::size_t length) {
  if (address == nullptr || length < sizeof(ADDRESS_FAMILY)) return {};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(address);
  ADDRESS_FAMILY raw_family;
  std::memcpy(&raw_family, bytes, sizeof raw_family);
  Family family = Family::kOther;
  std::size_t ip_offset = 0;
  if (raw_family == AF_INET) {
    family = Family::kIpv4;
    ip_offset = offsetof(sockaddr_in, sin_addr);
  } else if (raw_family == AF_INET6) {
    family = Family::kIpv6;
    ip_offset = offsetof(sockaddr_in6, sin6_addr);
  } else {
    return FromParts(raw_family == AF_UNSPEC ? Family::kUnspecified : Family::kOther, {}, 0);
  }
  std::uint16_t port = 0;
  if (length >= sizeof(ADDRESS_FAMILY) + sizeof port)
    std::memcpy(&port, bytes + sizeof(ADDRESS_FAMILY), sizeof port);
  const std::size_t present =
      length > ip_offset ? std::min<std::size_t>(length - ip_offset, family == Family::kIpv4 ? 4 : 16) : 0;
  return FromParts(family, {reinterpret_cast<const char*>(bytes) + ip_offset, present}, ntohs(port));
}

std::size_t Address::ToSockaddr(void* storage) const {
  if (!well_formed()) return 0;
  if (family_ == Family::kIpv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port_);
    std::memcpy(&in.sin_addr, ip_.data(), 4);
    std::memcpy(storage, &in, sizeof in);
    return sizeof in;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(port_);
  std::memcpy(&in6.sin6_addr, ip_.data(), 16);
  std::memcpy(storage, &in6, sizeof in6);
  return sizeof in6;
}

}  // namespace nd
