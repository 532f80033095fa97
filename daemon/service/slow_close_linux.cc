// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/slow_close.h"

#include <sys/socket.h>

namespace nd::service {

void ResetInsteadOfLingering(int fd) {
  linger how{};
  socklen_t length = sizeof how;
  if (::getsockopt(fd, SOL_SOCKET, SO_LINGER, &how, &length) != 0) return;  // Not a socket.
  if (how.l_onoff == 0 || how.l_linger == 0) return;
  const linger reset{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

}  // namespace nd::service
