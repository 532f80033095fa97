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

// Returns the source address for `remote`, or for the route from `local` if given. Returns no value, with
// errno, when there is no route.
std::optional<Address> SourceTowards(const Address& remote, const Address* local) {
  const int family = remote.family() == Address::Family::kIpv6 ? AF_INET6 : AF_INET;
  const UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return std::nullopt;
  sockaddr_storage storage{};
  if (local != nullptr) {
    const std::size_t length = local->WithPort(0).ToSockaddr(&storage);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) != 0) {
      return std::nullopt;
    }
  }
  // The route does not depend on the port, but connect() refuses port 0.
  const std::size_t length = remote.WithPort(9).ToSockaddr(&storage);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) != 0) {
    return std::nullopt;
  }
  const Address found = LocalAddressOf(fd.get());
  if (!found.well_formed()) return std::nullopt;
  return found.WithPort(0);
}

}  // namespace

Result<Address> FindRoute(const Adapter& adapter, const Address& remote) {
  if (!remote.well_formed()) return Status{StatusCode::kInvalidAddress, "the remote address is malformed"};
  if (remote.unspecified() || remote.multicast()) {
    return Status{StatusCode::kNetworkUnreachable, remote.IpToString() + " names no single host"};
  }
  const std::optional<Address> preferred = SourceTowards(remote, nullptr);
  const int error = errno;
  if (preferred && adapter.Has(*preferred)) return *preferred;
  for (const Address& local : adapter.addresses) {
    if (local.family() == remote.family() && SourceTowards(remote, &local)) return local;
  }
  return Status{StatusCode::kNetworkUnreachable,
                "adapter " + adapter.options.name + " has no route to " + remote.IpToString(),
                Detail::kTransport, preferred ? 0 : error};
}

}  // namespace nd::provider::soft
