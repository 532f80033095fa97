// SPDX-License-Identifier: Apache-2.0
// A socket is recognized by the kernel's facts about it; its name in the store only has to be unique.
#include "base/os/kept_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/os/given_socket.h"

namespace nd::os {
namespace {

constexpr std::string_view kPrefix = "wire ";

// Names in the fd store must not contain colons.
std::string NameOf(const NetworkAddress& at) {
  std::string name = std::string(kPrefix) + at.address.ToString();
  if (at.network != 0) name += " of " + std::to_string(at.network);
  std::ranges::replace(name, ':', '-');
  return name;
}

int Option(int fd, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

// The address of a listening TCP socket; malformed otherwise.
Address ListeningAddress(int fd) {
  const int domain = Option(fd, SO_DOMAIN);
  if ((domain != AF_INET && domain != AF_INET6) || Option(fd, SO_TYPE) != SOCK_STREAM ||
      Option(fd, SO_ACCEPTCONN) != 1) {
    return {};
  }
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&storage), length);
}

}  // namespace

StoredSockets::StoredSockets(const ServiceManager& manager, std::vector<InheritedDescriptor>* descriptors)
    : manager_(manager) {
  std::erase_if(*descriptors, [this](InheritedDescriptor& each) {
    if (!each.name.starts_with(kPrefix)) return false;
    const int flags = ::fcntl(each.fd.get(), F_GETFL);
    // The name tells whether the network namespace was this process's; which one it is, the kernel tells.
    NetworkAddress at{ListeningAddress(each.fd.get())};
    if (NameOf(at) != each.name) at.network = NetworkOf(each.fd.get());
    const bool usable = at.address.well_formed() && NameOf(at) == each.name && flags >= 0 &&
                        ::fcntl(each.fd.get(), F_SETFL, flags | O_NONBLOCK) == 0;
    if (!usable || !left_.emplace(at, std::move(each.fd)).second) manager_.Unstore(each.name);
    return true;
  });
}

UniqueFd StoredSockets::Take(const NetworkAddress& address) {
  auto found = left_.extract(address);
  return found ? std::move(found.mapped()) : UniqueFd();
}

bool StoredSockets::Keep(const NetworkAddress& address, int fd) {
  return manager_.Store(NameOf(address), fd);
}

void StoredSockets::Drop(const NetworkAddress& address) {
  // When this message is lost, systemd drops the socket all the same: it sees that the socket was shut down.
  manager_.Unstore(NameOf(address));
}

void StoredSockets::DropUnclaimed() {
  for (const auto& [address, fd] : left_) {
    ::shutdown(fd.get(), SHUT_RD);
    Drop(address);
  }
  left_.clear();
}

}  // namespace nd::os
