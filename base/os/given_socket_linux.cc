// SPDX-License-Identifier: Apache-2.0
#include "base/os/given_socket.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

#include "base/os/bind.h"
#include "base/os/descriptor.h"
#include "base/os/socket.h"
#include "base/os/socket_option_linux.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace nd::os {
namespace {

constexpr std::string_view kPlace = "the client's network namespace";

int OptionOf(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

GivenKind GivenKindOf(int fd) {
  const int family = OptionOf(fd, SOL_SOCKET, SO_DOMAIN), protocol = OptionOf(fd, SOL_SOCKET, SO_PROTOCOL);
  if (family == AF_NETLINK) return protocol == NETLINK_ROUTE ? GivenKind::kRoutes : GivenKind::kOther;
  if (OptionOf(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM || protocol != IPPROTO_TCP) return GivenKind::kOther;
  return family == AF_INET ? GivenKind::kTcp4 : family == AF_INET6 ? GivenKind::kTcp6 : GivenKind::kOther;
}

bool Layered(int fd) {
  char name[16] = {};
  socklen_t length = sizeof name;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &length) == 0 && length > 0 && name[0] != '\0';
}

}  // namespace

UniqueFd MakeGiven(GivenKind kind) {
  constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  switch (kind) {
    case GivenKind::kTcp4:
      return UniqueFd(::socket(AF_INET, SOCK_STREAM | kFlags, IPPROTO_TCP));
    case GivenKind::kTcp6:
      return UniqueFd(::socket(AF_INET6, SOCK_STREAM | kFlags, IPPROTO_TCP));
    case GivenKind::kRoutes:
      return UniqueFd(::socket(AF_NETLINK, SOCK_RAW | kFlags, NETLINK_ROUTE));
    case GivenKind::kOther:
      break;
  }
  errno = EAFNOSUPPORT;
  return {};
}

GivenKind TcpKindOf(Address::Family family) {
  if (family == Address::Family::kIpv4) return GivenKind::kTcp4;
  return family == Address::Family::kIpv6 ? GivenKind::kTcp6 : GivenKind::kOther;
}

GivenFacts FactsOf(int fd) {
  GivenFacts facts;
  facts.is_socket = OptionOf(fd, SOL_SOCKET, SO_TYPE) >= 0;
  if (!facts.is_socket) return facts;
  facts.kind = GivenKindOf(fd);
  facts.network = NetworkOf(fd);
  if (facts.kind == GivenKind::kRoutes) {
    sockaddr_nl name{};
    socklen_t length = sizeof name;
    facts.bound = ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0 || name.nl_pid != 0 ||
                  name.nl_groups != 0;
    length = sizeof name;
    facts.connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0 || name.nl_pid != 0;
  } else if (facts.kind != GivenKind::kOther) {
    const Address local = LocalAddress(fd);
    facts.bound = local.port() != 0 || !local.unspecified();
    tcp_info info{};
    socklen_t length = sizeof info;
    const bool known = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
    facts.listening = OptionOf(fd, SOL_SOCKET, SO_ACCEPTCONN) != 0;
    facts.connected = !facts.listening && (!known || info.tcpi_state != TCP_CLOSE);
    facts.layered = Layered(fd);
  }
  return facts;
}

std::string WhyUnfit(const GivenFacts& facts, std::uint64_t network) {
  if (!facts.is_socket) return "a descriptor that is not a socket was given; a fresh TCP socket was expected";
  if (facts.kind == GivenKind::kOther) {
    return "a socket of another kind was given; a fresh TCP socket was expected";
  }
  if (facts.network == 0 || facts.network != network) {
    return "a socket of another network namespace was given; one of the namespace of the session was "
           "expected";
  }
  const char* const wrong = facts.listening   ? "listens already"
                            : facts.connected ? "is connected already"
                            : facts.bound     ? "is bound already"
                            : facts.layered   ? "has another protocol on top of TCP"
                                              : nullptr;
  if (wrong == nullptr) return {};
  return std::string("a socket was given that ") + wrong + "; a fresh one was expected";
}

std::uint64_t NetworkOf(int socket) {
  std::uint64_t network = 0;
  socklen_t length = sizeof network;
  return ::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &network, &length) == 0 ? network : 0;
}

Status ListenOnGiven(int fd, const Address& at) {
  SetNonBlocking(fd);
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (at.family() == Address::Family::kIpv6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (Status status = Bind(fd, at, kPlace); !status.ok()) return status;
  if (::listen(fd, SOMAXCONN) != 0) return BindFailure(errno, at, kPlace);
  return {};
}

Status BindGiven(int fd, const Address& from) {
  SetNonBlocking(fd);
  if (from.family() == Address::Family::kIpv6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SetOption(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  return Bind(fd, from.WithPort(0), kPlace);
}

}  // namespace nd::os
