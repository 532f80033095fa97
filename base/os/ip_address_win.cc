// SPDX-License-Identifier: Apache-2.0
#include "base/os/ip_address.h"

#include <winsock2.h>
#include <ws2tcpip.h>

#include "base/os/object_win.h"

namespace nd::os {

static_assert(kHasThisLayout<sockaddr_in, sockaddr_in6> && kNoFamily == AF_UNSPEC && kFamily4 == AF_INET);
const std::uint16_t kFamily6 = AF_INET6;

std::size_t ParseIp(const std::string& text, std::array<std::uint8_t, 16>* ip) {
  StartWinsock();
  if (::inet_pton(AF_INET, text.c_str(), ip->data()) == 1) return 4;
  if (::inet_pton(AF_INET6, text.c_str(), ip->data()) == 1) return 16;
  return 0;
}

std::string FormatIp(std::span<const std::uint8_t> ip) {
  char text[INET6_ADDRSTRLEN];
  return ::inet_ntop(ip.size() == 4 ? AF_INET : AF_INET6, const_cast<std::uint8_t*>(ip.data()), text,
                     sizeof text);
}

}  // namespace nd::os
