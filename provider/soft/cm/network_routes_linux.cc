// SPDX-License-Identifier: Apache-2.0
// rtnetlink: the kernel answers a request while it is sent or while its answer is read, so no call waits.
#include "provider/soft/cm/network_routes.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "provider/soft/cm/host_addresses.h"

namespace nd::provider::soft {
namespace {

constexpr Duration kChangePause = std::chrono::milliseconds(100);
constexpr int kMostDatagrams = 64;  // Of one turn.

struct AddressRequest {
  nlmsghdr head{};
  ifaddrmsg body{};
};
struct RouteRequest {
  nlmsghdr head{};
  rtmsg body{};
  rtattr attribute{};
  std::array<char, 16> destination{};
};

// Calls `each` for each message of a datagram and returns false when `each` does.
template <typename Each>
bool ForEachMessage(const char* bytes, std::size_t size, Each each) {
  nlmsghdr head;
  while (size >= sizeof head) {
    std::memcpy(&head, bytes, sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > size) return true;
    if (!each(head, std::string_view(bytes + sizeof head, head.nlmsg_len - sizeof head))) return false;
    const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(head.nlmsg_len), size);
    bytes += step;
    size -= step;
  }
  return true;
}

// The value of the attribute behind a body of `skip` bytes; empty: it is not there.
std::string_view AttributeOf(std::string_view message, std::size_t skip, unsigned short type) {
  rtattr head;
  for (std::size_t at = NLMSG_ALIGN(skip); at + sizeof head <= message.size();) {
    std::memcpy(&head, message.data() + at, sizeof head);
    if (head.rta_len < sizeof head || at + head.rta_len > message.size()) break;
    if (head.rta_type == type) return message.substr(at + sizeof head, head.rta_len - sizeof head);
    at += RTA_ALIGN(head.rta_len);
  }
  return {};
}

// Malformed when the bytes are no IP.
Address IpOf(std::string_view bytes) {
  if (bytes.size() == 4) {
    std::array<std::uint8_t, 4> ip;
    std::memcpy(ip.data(), bytes.data(), ip.size());
    return Address::V4(ip);
  }
  if (bytes.size() != 16) return {};
  std::array<std::uint8_t, 16> ip;
  std::memcpy(ip.data(), bytes.data(), ip.size());
  return Address::V6(ip);
}

// Receives the messages until the end of the answer `sequence`. `notice`: a message that answers nothing.
template <typename Each, typename Notice>
bool ReadAnswer(int socket, std::uint32_t sequence, bool many, Each each, Notice notice) {
  std::array<char, 32768> buffer;
  bool done = false, good = false;
  for (int i = 0; i < kMostDatagrams && !done; ++i) {
    const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    ForEachMessage(buffer.data(), static_cast<std::size_t>(got),
                   [&](const nlmsghdr& head, std::string_view m) {
                     if (head.nlmsg_seq != sequence) {
                       notice();
                       return true;
                     }
                     const bool last = head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR;
                     if (!last) each(head, m);
                     done = last || !many;
                     good = done && head.nlmsg_type != NLMSG_ERROR;
                     return !done;
                   });
  }
  return good;
}

}  // namespace

NetworkRoutes::NetworkRoutes(EventLoop& loop, UniqueFd socket, std::function<void()> changed)
    : loop_(loop), socket_(std::move(socket)), changed_(std::move(changed)) {}

NetworkRoutes::~NetworkRoutes() {
  if (watched_) loop_.Remove(socket_.get());
  if (timer_) loop_.Cancel(*timer_);
}

bool NetworkRoutes::Open() {
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  watched_ = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 &&
             loop_.Add(socket_.get(), EPOLLIN, [this](std::uint32_t) { OnReadable(); });
  return watched_;
}

std::optional<std::vector<Address>> NetworkRoutes::Addresses() {
  AddressRequest request;
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETADDR;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.head.nlmsg_seq = ++sequence_;
  request.body.ifa_family = AF_UNSPEC;
  if (::send(socket_.get(), &request, sizeof request, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return std::nullopt;
  std::vector<Address> addresses;
  const bool complete = ReadAnswer(
      socket_.get(), sequence_, /*many=*/true,
      [&](const nlmsghdr& head, std::string_view message) {
        if (head.nlmsg_type != RTM_NEWADDR || message.size() < sizeof(ifaddrmsg)) return;
        std::string_view ip = AttributeOf(message, sizeof(ifaddrmsg), IFA_LOCAL);
        if (ip.empty()) ip = AttributeOf(message, sizeof(ifaddrmsg), IFA_ADDRESS);
        const Address address = IpOf(ip);
        if (address.well_formed() && !IsLinkLocal(address)) addresses.push_back(address);
      },
      [this] { ChangedLater(); });
  if (!complete) return std::nullopt;
  std::ranges::sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

std::optional<Address> NetworkRoutes::SourceTowards(const Address& remote) {
  const std::string_view ip = remote.ip();
  if (ip.size() != 4 && ip.size() != 16) return std::nullopt;
  RouteRequest request;
  request.head.nlmsg_len = static_cast<std::uint32_t>(offsetof(RouteRequest, destination) + ip.size());
  request.head.nlmsg_type = RTM_GETROUTE;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.head.nlmsg_seq = ++sequence_;
  request.body.rtm_family = ip.size() == 4 ? AF_INET : AF_INET6;
  request.body.rtm_dst_len = static_cast<unsigned char>(ip.size() * 8);
  request.attribute.rta_type = RTA_DST;
  request.attribute.rta_len = static_cast<unsigned short>(sizeof(rtattr) + ip.size());
  std::memcpy(request.destination.data(), ip.data(), ip.size());
  if (::send(socket_.get(), &request, request.head.nlmsg_len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    return std::nullopt;
  }
  Address source;
  const bool complete = ReadAnswer(
      socket_.get(), sequence_, /*many=*/false,
      [&](const nlmsghdr& head, std::string_view message) {
        if (head.nlmsg_type != RTM_NEWROUTE || message.size() < sizeof(rtmsg)) return;
        rtmsg route;
        std::memcpy(&route, message.data(), sizeof route);
        const bool usable = route.rtm_type == RTN_UNICAST || route.rtm_type == RTN_LOCAL;
        if (usable) source = IpOf(AttributeOf(message, sizeof(rtmsg), RTA_PREFSRC));
      },
      [this] { ChangedLater(); });
  if (!complete || !source.well_formed()) return std::nullopt;
  return source;
}

void NetworkRoutes::OnReadable() {
  std::array<char, 8192> scrap;
  for (int i = 0; i < kMostDatagrams; ++i) {
    const ssize_t got = ::recv(socket_.get(), scrap.data(), scrap.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
  }
  ChangedLater();
}

void NetworkRoutes::ChangedLater() {
  if (timer_) return;
  timer_ = loop_.At(loop_.clock().Now() + kChangePause, [this] {
    timer_.reset();
    changed_();
  });
}

}  // namespace nd::provider::soft
