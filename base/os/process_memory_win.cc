// SPDX-License-Identifier: Apache-2.0
#include "base/os/process_memory.h"

namespace nd::os {

bool HasProcessMemory() {
  return false;
}

bool IsOpenTo(std::uint32_t) {
  return false;
}

std::size_t ReadFromProcess(std::uint32_t, std::span<const PieceHere>, std::span<const PieceThere>) {
  return 0;
}

std::size_t WriteToProcess(std::uint32_t, std::span<const PieceHere>, std::span<const PieceThere>) {
  return 0;
}

}  // namespace nd::os
