// SPDX-License-Identifier: Apache-2.0
// Connecting a UDP socket makes the system look up the route; the socket then has the source address. Each
// lookup has a socket of its own: one that was connected keeps its source address for the next lookup.
#include "provider/soft/cm/route.h"

#include "base/os/object_win.h"

#include <ws2tcpip.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>

namespace nd::provider::soft {
namespace {

using Call = int(WSAAPI*)(SOCKET, const sockaddr*, int);

bool Invoke(Call call, SOCKET socket, const Address& address) {
  sockaddr_storage storage{};
  const std::size_t length = address.ToSockaddr(&storage);
  if (call(socket, reinterpret_cast<const sockaddr*>(&storage), static_cast<int>(length)) == 0) return true;
  os::SetErrno(static_cast<DWORD>(::WSAGetLastError()));
  return false;
}

// The source address towards `remote`, with port 0, of a socket that is bound to `local` if there is one. No
// value, with errno: there is no route.
std::optional<Address> SourceTowards(const Address& remote, const Address* local) {
  os::StartWinsock();
  const int family = remote.family() == Address::Family::kIpv6 ? AF_INET6 : AF_INET;
  const os::SocketObject socket(::WSASocketW(family, SOCK_DGRAM, IPPROTO_UDP, nullptr, 0,
                                             WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT),
                                os::SocketObject::Use::kNetwork);
  if (socket.get() == INVALID_SOCKET) {
    os::SetErrno(static_cast<DWORD>(::WSAGetLastError()));
    return std::nullopt;
  }
  if (local != nullptr && !Invoke(::bind, socket.get(), local->WithPort(0))) return std::nullopt;
  // The route does not depend on the port, but connect() refuses port 0.
  if (!Invoke(::connect, socket.get(), remote.WithPort(9))) return std::nullopt;
  sockaddr_storage storage{};
  int length = sizeof storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) return std::nullopt;
  const Address found =
      Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&storage), static_cast<std::size_t>(length));
  if (!found.well_formed() || found.unspecified()) return std::nullopt;
  return found.WithPort(0);
}

}  // namespace

// Nothing is kept here.
class RouteFinder::Kept {};

RouteFinder::RouteFinder() = default;
RouteFinder::~RouteFinder() = default;

std::optional<Address> RouteFinder::PreferredSource(const Address& remote) {
  return SourceTowards(remote, nullptr);
}

Result<Address> RouteFinder::Find(const Adapter& adapter, const Address& remote, std::uint64_t /*moment*/) {
  if (!remote.well_formed()) return Status{StatusCode::kInvalidAddress, "the remote address is malformed"};
  if (remote.unspecified() || remote.multicast()) {
    return Status{StatusCode::kNetworkUnreachable, remote.IpToString() + " names no single host"};
  }
  const std::optional<Address> preferred = PreferredSource(remote);
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
