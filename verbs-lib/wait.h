// SPDX-License-Identifier: Apache-2.0
// How a program waits on a descriptor of this library.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include <cerrno>

namespace nd::verbs_lib {

// Waits until `fd` is readable, as long as the program did not make it non-blocking. Returns 0, or -1 with
// errno (EAGAIN, EINTR).
inline int WaitReadable(int fd) {
  if ((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return -1;
  }
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, -1) < 0 ? -1 : 0;
}

}  // namespace nd::verbs_lib
