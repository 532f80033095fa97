// SPDX-License-Identifier: Apache-2.0
// How a program waits on a descriptor of this library.
#pragma once

namespace nd::verbs_lib {

// Waits until `fd` is readable, as long as the program did not make it non-blocking. Returns 0, or -1 with
// errno (EAGAIN, EINTR, EBADF). Goes on after a signal when a device would.
int WaitReadable(int fd);

}  // namespace nd::verbs_lib
