// SPDX-License-Identifier: Apache-2.0
// For tests that show by its amount that something was not read.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace nd {

// The bytes that this process has read so far; 0 when the system does not count them.
inline std::uint64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string word;
  std::uint64_t bytes = 0;
  io >> word >> bytes;
  return word == "rchar:" ? bytes : 0;
}

}  // namespace nd
