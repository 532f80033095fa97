// SPDX-License-Identifier: Apache-2.0
// The two ends are a pair of stream sockets.
#include "tests/testing/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace nd::testing {

bool ReadAll(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = recv(fd, to, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool WriteAll(int fd, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t n = send(fd, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

void MakeChannelPair(UniqueFd* ours, UniqueFd* theirs) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    std::perror("socketpair");
    std::abort();
  }
  ours->reset(pair[0]);
  theirs->reset(pair[1]);
}

}  // namespace nd::testing
