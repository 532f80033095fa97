// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/slow_close.h"

#include "base/os/object_win.h"

namespace nd::service {

void ResetInsteadOfLingering(int fd) {
  const auto socket = os::FindAs<os::SocketObject>(fd);
  linger how{};
  int length = sizeof how;
  if (!socket ||
      ::getsockopt(socket->get(), SOL_SOCKET, SO_LINGER, reinterpret_cast<char*>(&how), &length) != 0) {
    return;
  }
  if (how.l_onoff == 0 || how.l_linger == 0) return;
  const linger reset{1, 0};
  ::setsockopt(socket->get(), SOL_SOCKET, SO_LINGER, reinterpret_cast<const char*>(&reset), sizeof reset);
}

}  // namespace nd::service
