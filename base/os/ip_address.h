// SPDX-License-Identifier: Apache-2.0
// IP addresses as text, without ports and without names, and in the form of the system. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nd::os {

// Returns the length of the address: 4, 16, or 0 when the text is no address. The bytes are in network order.
std::size_t ParseIp(const std::string& text, std::array<std::uint8_t, 16>* ip);

// `ip` has 4 or 16 bytes. The short form of RFC 5952 for IPv6.
std::string FormatIp(std::span<const std::uint8_t> ip);

// sockaddr_in and sockaddr_in6, which have this layout on every system. Port and address are in network
// order.
struct SocketAddress4 {
  std::uint16_t family;
  std::array<std::uint8_t, 2> port;
  std::array<std::uint8_t, 4> ip;
  std::array<std::uint8_t, 8> zero;
};
struct SocketAddress6 {
  std::uint16_t family;
  std::array<std::uint8_t, 2> port;
  std::uint32_t flow;
  std::array<std::uint8_t, 16> ip;
  std::uint32_t scope;
};

// AF_UNSPEC, AF_INET and AF_INET6.
inline constexpr std::uint16_t kNoFamily = 0, kFamily4 = 2;
extern const std::uint16_t kFamily6;

// For the file of each system: In is its sockaddr_in, In6 its sockaddr_in6.
template <typename In, typename In6>
inline constexpr bool kHasThisLayout = sizeof(In) == sizeof(SocketAddress4) &&
                                       sizeof(In6) == sizeof(SocketAddress6) &&
                                       sizeof(In::sin_family) == sizeof kFamily4 &&
                                       sizeof(In6::sin6_family) ==
                                           sizeof kFamily4&& offsetof(In, sin_family) == 0 &&
                                       offsetof(In6, sin6_family) == 0 &&
                                       offsetof(In, sin_port) == offsetof(SocketAddress4, port) &&
                                       offsetof(In6, sin6_port) == offsetof(SocketAddress6, port) &&
                                       offsetof(In, sin_addr) == offsetof(SocketAddress4, ip) &&
                                       offsetof(In6, sin6_addr) == offsetof(SocketAddress6, ip);

}  // namespace nd::os
