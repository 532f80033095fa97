// SPDX-License-Identifier: Apache-2.0
// NETLINK_ROUTE signals that an address changed; getifaddrs returns the addresses, so no message is parsed.
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "provider/soft/cm/host_addresses.h"

namespace nd::provider::soft {

bool IsLinkLocal(const Address& address) {
  const std::string_view ip = address.ip();
  return ip.size() == 16 && static_cast<unsigned char>(ip[0]) == 0xFE &&
         (static_cast<unsigned char>(ip[1]) & 0xC0) == 0x80;
}

std::vector<Address> ListHostAddresses() {
  std::vector<Address> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::size_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const Address address = Address::FromSockaddr(entry->ifa_addr, length).WithPort(0);
    if (address.well_formed() && !IsLinkLocal(address)) addresses.push_back(address);
  }
  freeifaddrs(list);
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

HostAddressWatch::HostAddressWatch(EventLoop& loop, std::function<void()> changed)
    : loop_(loop), changed_(std::move(changed)) {
  fd_.reset(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (!fd_ || bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      !loop_.Add(fd_.get(), EPOLLIN, [this](std::uint32_t) { Drain(); })) {
    fd_.reset();
  }
}

HostAddressWatch::~HostAddressWatch() {
  if (fd_) loop_.Remove(fd_.get());
}

void HostAddressWatch::Drain() {
  std::array<char, 8192> buffer;
  bool any = false;
  while (true) {
    const ssize_t got = recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    // ENOBUFS: messages were lost, which is a change too.
    if (got < 0 && errno != ENOBUFS && errno != EINTR) break;
    any = true;
  }
  if (any) changed_();
}

}  // namespace nd::provider::soft
