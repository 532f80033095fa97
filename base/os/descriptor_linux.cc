// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include "base/os/descriptor.h"

namespace nd::os {

UniqueFd Duplicate(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

void SetNonBlocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace nd::os
