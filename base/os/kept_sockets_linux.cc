// SPDX-License-Identifier: Apache-2.0
// A socket is recognized by the kernel's facts about it; its name in the store only has to be unique.
#include "base/os/kept_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace nd::os {
namespace {

constexpr std::string_view kPrefix = "wire ";

// Names in the fd store must not contain colons.
std::string NameOf(const Address& address) {
  std::string name = std::string(kPrefix) + address.ToString();
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
    const Address address = ListeningAddress(each.fd.get());
    const bool usable = address.well_formed() && NameOf(address) == each.name && flags >= 0 &&
                        ::fcntl(each.fd.get(), F_SETFL, flags | O_NONBLOCK) == 0;
    if (!usable || !left_.emplace(address, std::move(each.fd)).second) manager_.Unstore(each.name);
    return true;
  });
}

UniqueFd StoredSockets::Take(const Address& address) {
  auto found = left_.extract(address);
  return found ? std::move(found.mapped()) : UniqueFd();
}

bool StoredSockets::Keep(const Address& address, int fd) {
  return manager_.Store(NameOf(address), fd);
}

void StoredSockets::Drop(const Address& address) {
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
