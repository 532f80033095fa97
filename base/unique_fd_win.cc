// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.h"

#include "base/os/object_win.h"
#include "base/os/watch_port_win.h"

namespace nd {

void UniqueFd::Close(int fd) {
  os::ForgetWatches(fd);  // Closed before another object can get the number.
  os::TakeObject(fd);
}

}  // namespace nd
