// SPDX-License-Identifier: Apache-2.0
// Keeps socket options and errno out of the protocol code.
#include "provider/soft/cm/tcp_socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/os/bind.h"

namespace nd::provider::soft {
namespace {

using os::Bind;
using std::chrono::duration_cast;

constexpr std::string_view kPlace = "this host";

void SetInt(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

Address AddressFrom(int fd, int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (get(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
}

}  // namespace

const bool kFlexiblePorts = true;
const bool kHasLowWater = true;

Result<UniqueFd> MakeTcpSocket(Address::Family family) {
  const bool v6 = family == Address::Family::kIpv6;
  UniqueFd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) {
    return Status{StatusCode::kInsufficientResources,
                  std::string("cannot create a socket: ") + std::strerror(errno), Detail::kTransport, errno};
  }
  if (v6) SetInt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return fd;
}

// Two sockets with SO_REUSEADDR may bind one port as long as neither listens, and without it a port is
// taken while any old connection of it sits in TIME_WAIT. So: bind with it, listen for a moment, which makes
// the kernel forget that the port was bound with it, then clear it. From then on every other bind of the port
// meets a socket that does not share.
Result<UniqueFd> HoldPort(const Address& address) {
  Result<UniqueFd> fd = MakeTcpSocket(address.family());
  if (!fd.ok()) return fd;
  SetInt(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (Status status = Bind(fd->get(), address, kPlace); !status.ok()) return status;
  if (listen(fd->get(), 0) != 0) return os::BindFailure(errno, address, kPlace);
  StopListening(fd->get());
  return fd;
}

bool StartListening(int held) {
  // Accepted sockets inherit the option, so that their TIME_WAIT does not keep the port.
  SetInt(held, SOL_SOCKET, SO_REUSEADDR, 1);
  if (listen(held, SOMAXCONN) == 0) return true;
  const int error = errno;
  SetInt(held, SOL_SOCKET, SO_REUSEADDR, 0);
  errno = error;
  return false;
}

void StopListening(int held) {
  shutdown(held, SHUT_RD);
  SetInt(held, SOL_SOCKET, SO_REUSEADDR, 0);
}

Result<UniqueFd> BindBeside(int held, const Address& address) {
  Result<UniqueFd> fd = MakeTcpSocket(address.family());
  if (!fd.ok()) return fd;
  SetInt(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (held >= 0) SetInt(held, SOL_SOCKET, SO_REUSEADDR, 1);
  const Status status = Bind(fd->get(), address, kPlace);
  if (held >= 0) SetInt(held, SOL_SOCKET, SO_REUSEADDR, 0);
  if (!status.ok()) return status;
  return fd;
}

Result<UniqueFd> BindWithoutPort(const Address& address) {
  Result<UniqueFd> fd = MakeTcpSocket(address.family());
  if (!fd.ok()) return fd;
  SetInt(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (Status status = Bind(fd->get(), address.WithPort(0), kPlace); !status.ok()) return status;
  return fd;
}

Result<UniqueFd> ListenOn(const Address& address) {
  Result<UniqueFd> fd = MakeTcpSocket(address.family());
  if (!fd.ok()) return fd;
  SetInt(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (Status status = Bind(fd->get(), address, kPlace); !status.ok()) return status;
  if (listen(fd->get(), SOMAXCONN) != 0) return os::BindFailure(errno, address, kPlace);
  return fd;
}

int Connect(int fd, const Address& remote) {
  sockaddr_storage storage{};
  const auto length = static_cast<socklen_t>(remote.ToSockaddr(&storage));
  return connect(fd, reinterpret_cast<const sockaddr*>(&storage), length) == 0 ? 0 : errno;
}

int TakeError(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

std::ptrdiff_t Peek(int fd, std::span<std::byte> into) {
  return recv(fd, into.data(), into.size(), MSG_PEEK | MSG_DONTWAIT);
}

Status ConnectFailure(int error, PortMode mode) {
  const auto because = [error](StatusCode code, std::string_view text, Detail detail = Detail::kTransport) {
    return Status(code, std::string(text) + " (" + std::strerror(error) + ")", detail, error);
  };
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
      return because(
          StatusCode::kConnectionRefused,
          mode == PortMode::kSeparate ? "no broker answers on the other host" : "nobody listens there",
          Detail::kNoListener);
    case ENETUNREACH:
    case ENETDOWN:
    case EINVAL:
    case EAFNOSUPPORT:
      return because(StatusCode::kNetworkUnreachable, "there is no route to the destination");
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case EACCES:
    case EPERM:
      return because(StatusCode::kHostUnreachable, "the host cannot be reached");
    case ETIMEDOUT:
      return because(StatusCode::kIoTimeout, "the host does not answer", Detail::kWireTimeout);
    case EADDRINUSE:
      return because(StatusCode::kSharingViolation,
                     "the local port is in use by another socket of this host");
    case EADDRNOTAVAIL:
      if (mode == PortMode::kTcp) {
        return because(StatusCode::kAddressAlreadyExists,
                       "a connection with these four addresses exists or lingers");
      }
      return because(StatusCode::kInsufficientResources, "no TCP source port is free");
    default:
      return because(StatusCode::kInsufficientResources, "the connection cannot be started");
  }
}

void SetHandshakeOptions(int fd, Duration keepalive) {
  const auto seconds = static_cast<int>(
      std::clamp<std::int64_t>(duration_cast<std::chrono::seconds>(keepalive).count(), 2, 3600));
  const auto milliseconds = static_cast<unsigned>(seconds) * 1000;
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  SetInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  SetInt(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

void SetHandOverOptions(int fd) {
  SetLowWater(fd, 1);
  SetResetOnClose(fd, true);
  // BBR paces loopback and short links to a fraction of their bandwidth. Choosing cubic needs a privilege;
  // reno does not.
  char name[16] = {};
  socklen_t length = sizeof name - 1;
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length);
  const std::string_view current(name);
  if (current == "cubic" || current == "reno") return;
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

bool NothingUnsent(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

void SetResetOnClose(int fd, bool reset) {
  const linger option{reset ? 1 : 0, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, sizeof option);
}

void SetLowWater(int fd, int bytes) {
  SetInt(fd, SOL_SOCKET, SO_RCVLOWAT, bytes);
}

bool PeerClosed(int fd) {
  pollfd state{fd, POLLRDHUP, 0};
  return poll(&state, 1, 0) == 1 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Address LocalAddressOf(int fd) {
  return AddressFrom(fd, getsockname);
}
Address PeerAddressOf(int fd) {
  return AddressFrom(fd, getpeername);
}

}  // namespace nd::provider::soft
