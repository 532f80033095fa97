// SPDX-License-Identifier: Apache-2.0
// Operations on every kind of descriptor. Any thread.
#pragma once

#include "base/unique_fd.h"

namespace nd::os {

// A second descriptor of the same object, which child processes do not inherit. Empty: errno says why.
UniqueFd Duplicate(int fd);

// Reads and writes of the object return at once from now on, through each of its descriptors.
void SetNonBlocking(int fd);

}  // namespace nd::os
