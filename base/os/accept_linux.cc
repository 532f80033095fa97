// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/os/accept.h"

namespace nd::os {

Accepted Accept(int listener) {
  // A bound, because a peer can end connections as fast as they are skipped here.
  for (int tries = 0; tries < 16; ++tries) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return {Accepted::Result::kConnection, std::move(fd), 0};
    switch (errno) {
      case EINTR:
        return {Accepted::Result::kNone, {}, EINTR};
      case ECONNABORTED:
      case EPROTO:
        continue;
      case EAGAIN:
        return {};
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return {Accepted::Result::kExhausted, {}, errno};
      default:
        return {Accepted::Result::kFailed, {}, errno};
    }
  }
  return {};
}

void SpareDescriptor::Refill() {
  if (!fd_) fd_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

UniqueFd SpareDescriptor::AcceptToRefuse(int listener) {
  if (!fd_) return {};
  fd_.reset();
  return Accept(listener).fd;
}

}  // namespace nd::os
