// SPDX-License-Identifier: Apache-2.0
// Socket options with a number as value. A socket that does not know an option keeps what it had.
#pragma once

#include <sys/socket.h>

namespace nd::os {

inline void SetOption(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

}  // namespace nd::os
