// SPDX-License-Identifier: Apache-2.0
// The mappings of this process (/proc/self/maps). Any thread; not for the data path.
#pragma once

#include <cstdint>
#include <functional>

#include "base/os/descriptor.h"

namespace nd::os {

struct OwnMapping {
  std::uintptr_t begin = 0, end = 0;
  std::uint64_t offset = 0;  // In its file.
  MemoryNumber file;
  bool shared = false;
  bool memfd = false;
};

// Each in the order of the addresses, until `visit` returns false. None when the system does not tell.
void ForEachMapping(const std::function<bool(const OwnMapping&)>& visit);

}  // namespace nd::os
