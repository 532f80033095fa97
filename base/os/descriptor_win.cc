// SPDX-License-Identifier: Apache-2.0
#include "base/os/descriptor.h"

#include "base/os/object_win.h"

namespace nd::os {

UniqueFd Duplicate(int fd) {
  return UniqueFd(DuplicateObject(fd));
}

// Sockets are made so, and pipes always are.
void SetNonBlocking(int fd) {
  u_long yes = 1;
  if (const auto socket = FindAs<SocketObject>(fd))
    ::ioctlsocket(socket->get(), static_cast<long>(FIONBIO), &yes);
}

std::optional<MemoryNumber> NumberOf(int) {
  return std::nullopt;
}

}  // namespace nd::os
