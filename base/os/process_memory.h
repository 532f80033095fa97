// SPDX-License-Identifier: Apache-2.0
// The memory of another process of this host, as far as the system lets this process reach it. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nd::os {

struct PieceHere {
  void* address = nullptr;
  std::size_t length = 0;
};
struct PieceThere {
  std::uint64_t address = 0;
  std::size_t length = 0;
};

// The maximum on each side of one copy.
inline constexpr std::size_t kMostPieces = 32;

// False: the system has no such copies, and the next two always return 0.
bool HasProcessMemory();

// True when `process` runs as the user of this process, and the memory of this process is open to its user.
bool IsOpenTo(std::uint32_t process);

// One copy between this process and `process`, in the order of the pieces. Returns the number of bytes: fewer
// than all when a page of either process is not there, or may not be accessed so; 0 also when `process` is
// not there, or may not be reached. Nothing behind such a page is copied. The two sides have the same length.
std::size_t ReadFromProcess(std::uint32_t process, std::span<const PieceHere> to,
                            std::span<const PieceThere> from);
std::size_t WriteToProcess(std::uint32_t process, std::span<const PieceHere> from,
                           std::span<const PieceThere> to);

}  // namespace nd::os
