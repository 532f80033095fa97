// SPDX-License-Identifier: Apache-2.0
// Connecting a UDP socket makes the kernel look up the route; the socket then has the source address.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/unique_fd.h"
#include "provider/soft/cm/route.h"
#include "provider/soft/cm/tcp_socket.h"

namespace nd::provider::soft {
namespace {

using Call = int (*)(int, const sockaddr*, socklen_t);

bool Invoke(Call call, int fd, const Address& address) {
  sockaddr_storage storage{};
  const std::size_t length = address.ToSockaddr(&storage);
  return call(fd, reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) == 0;
}

UniqueFd MakeSocket(Address::Family family) {
  return UniqueFd(socket(family == Address::Family::kIpv6 ? AF_INET6 : AF_INET,
                         SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Returns no value, with errno, when there is no route.
std::optional<Address> SourceOf(int fd, const Address& remote) {
  // The route does not depend on the port, but connect() refuses port 0.
  if (!Invoke(connect, fd, remote.WithPort(9))) return std::nullopt;
  const Address found = LocalAddressOf(fd);
  if (!found.well_formed()) return std::nullopt;
  return found.WithPort(0);
}

bool HasRoute(const Address& local, const Address& remote) {
  const UniqueFd socket = MakeSocket(remote.family());
  return socket && Invoke(bind, socket.get(), local.WithPort(0)) &&
         SourceOf(socket.get(), remote).has_value();
}

}  // namespace

RouteFinder::RouteFinder()
    : v4_(MakeSocket(Address::Family::kIpv4)), v6_(MakeSocket(Address::Family::kIpv6)) {}

// The source address that the kernel prefers for `remote`. No value, with errno: there is no route.
std::optional<Address> RouteFinder::PreferredSource(const Address& remote) {
  UniqueFd& socket = remote.family() == Address::Family::kIpv6 ? v6_ : v4_;
  if (!socket) socket = MakeSocket(remote.family());
  if (!socket) return std::nullopt;
  const std::optional<Address> source = SourceOf(socket.get(), remote);
  const int error = errno;
  // Forgets the source address, too, which the next lookup would keep.
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(socket.get(), &none, sizeof none) != 0) socket.reset();
  errno = error;
  return source;
}

Result<Address> RouteFinder::Find(const Adapter& adapter, const Address& remote) {
  if (!remote.well_formed()) return Status{StatusCode::kInvalidAddress, "the remote address is malformed"};
  if (remote.unspecified() || remote.multicast()) {
    return Status{StatusCode::kNetworkUnreachable, remote.IpToString() + " names no single host"};
  }
  const std::optional<Address> preferred = PreferredSource(remote);
  const int error = errno;
  if (preferred && adapter.Has(*preferred)) return *preferred;
  for (const Address& local : adapter.addresses) {
    if (local.family() == remote.family() && HasRoute(local, remote)) return local;
  }
  return Status{StatusCode::kNetworkUnreachable,
                "adapter " + adapter.options.name + " has no route to " + remote.IpToString(),
                Detail::kTransport, preferred ? 0 : error};
}

}  // namespace nd::provider::soft
