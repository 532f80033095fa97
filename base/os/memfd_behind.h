// SPDX-License-Identifier: Apache-2.0
// The memfd behind memory that the program has mapped itself. Any thread.
#pragma once

#include <cstddef>
#include <optional>

#include "base/os/descriptor.h"
#include "base/unique_fd.h"

namespace nd::os {

struct MemfdBehind {
  UniqueFd fd;  // A second descriptor of the program's memfd.
  MemoryNumber number;
  std::byte* begin = nullptr;  // Where the memfd is mapped.
  std::size_t size = 0;
  bool writable = false;                // Another process that gets `fd` can map it for writing.
  bool sealed_against_writing = false;  // No holder of `fd` can ever map it for writing.
};

// The memfd whose every byte lies in [address, address + length), mapped there as shared memory from its
// beginning. Its size can never change, because it has the seals GROW, SHRINK and SEAL (base/memfd.h).
// Nothing for other memory, and when no descriptor of the memfd is open in this process any more. `address`
// must be that of a page, else nothing is looked up. Reads files about this process: not for the data path.
std::optional<MemfdBehind> FindMemfdBehind(const void* address, std::size_t length);

}  // namespace nd::os
