// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.h"

#include "base/os/object_win.h"
#include "base/os/watch_port_win.h"

namespace nd {

void UniqueFd::Close(int fd) {
  os::CloseDescriptor(fd);
}

}  // namespace nd
