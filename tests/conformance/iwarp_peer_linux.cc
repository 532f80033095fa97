// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

#include "tests/conformance/iwarp_peer.h"

namespace nd::conformance {
namespace {

void BePatient(int fd) {
  const timeval patience{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

UniqueFd Socket() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BePatient(fd.get());
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  return fd;
}

}  // namespace

UniqueFd ConnectedTo(const Address& to) {
  UniqueFd fd = Socket();
  sockaddr_storage storage{};
  const auto length = static_cast<socklen_t>(to.ToSockaddr(&storage));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0) fd.reset();
  return fd;
}

UniqueFd ListenerAt(const Address& at) {
  UniqueFd fd = Socket();
  sockaddr_storage storage{};
  const auto length = static_cast<socklen_t>(at.ToSockaddr(&storage));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0 || listen(fd.get(), 16) != 0)
    fd.reset();
  return fd;
}

UniqueFd AcceptedBy(const UniqueFd& listener) {
  UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  BePatient(fd.get());
  return fd;
}

bool SendAll(const UniqueFd& socket, const void* from, std::size_t size) {
  return send(socket.get(), from, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

std::ptrdiff_t ReceiveUntil(const UniqueFd& socket, void* to, std::size_t size) {
  const ssize_t got = recv(socket.get(), to, size, MSG_WAITALL);
  return got < 0 && errno == ECONNRESET ? 0 : got;
}

}  // namespace nd::conformance
