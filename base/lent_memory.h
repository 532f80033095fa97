// SPDX-License-Identifier: Apache-2.0
// Memory of the program that its allocator shares from the allocation on: a memfd contains one allocation and
// nothing else. Any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "base/os/memfd_behind.h"

namespace nd {

// Finds the memfd that contains [address, address + length). Null: it is other memory.
using MemoryLender = std::optional<os::MemfdBehind> (*)(const void* address, std::size_t length);

// Null: there is no such allocator, as at first.
void SetMemoryLender(MemoryLender lender);

// What the allocator says.
std::optional<os::MemfdBehind> FindLentMemory(const void* address, std::size_t length);

}  // namespace nd
