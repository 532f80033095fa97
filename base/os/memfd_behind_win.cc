// SPDX-License-Identifier: Apache-2.0
// A section cannot be found by its memory.
#include "base/os/memfd_behind.h"

namespace nd::os {

std::optional<MemfdBehind> FindMemfdBehind(const void*, std::size_t) {
  return std::nullopt;
}

}  // namespace nd::os
