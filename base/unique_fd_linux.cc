// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "base/unique_fd.h"

namespace nd {

void UniqueFd::Close(int fd) {
  ::close(fd);
}

}  // namespace nd
