// SPDX-License-Identifier: Apache-2.0
// Operations on every kind of descriptor. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/unique_fd.h"

namespace nd::os {

// A second descriptor of the same object, which child processes do not inherit. Empty: errno says why.
UniqueFd Duplicate(int fd);

// Reads and writes of the object return at once from now on, through each of its descriptors.
void SetNonBlocking(int fd);

// The same for all descriptors of one object of memory, and different from those of all others that are open
// or mapped. Absent: the system does not tell.
using MemoryNumber = std::pair<std::uint64_t, std::uint64_t>;
std::optional<MemoryNumber> NumberOf(int fd);

}  // namespace nd::os
