// SPDX-License-Identifier: Apache-2.0
// Attempts on the memory of a client.
#pragma once

#include <sys/types.h>

namespace nd::conformance {

// Runs as another user in a process of its own and tries to open the objects of `owner`. Returns 0, or the
// number of the way that succeeded.
int WaysInto(pid_t owner);

// No process, not even the peer, can truncate memory that the owner maps.
void ExpectFixedMemory(pid_t owner);

}  // namespace nd::conformance
