// SPDX-License-Identifier: Apache-2.0
// Memory that another process can map, for a program that knows nothing of it. A block is a sealed memfd of
// its own, mapped where the program uses it, and has whole pages, so that the memory of others is in none.
//
// Memory is shared from its allocation until it is freed. It could not become so at its registration: the
// pages would have to be exchanged while other threads write to them, and while the kernel has them pinned
// for input (docs/verbs-programs.md).
//
// A child of fork() gets a copy of each block, as of ordinary memory. One that is made past the C library
// (clone() without CLONE_VM) does not have them.
//
// Thread rule: any thread. Nothing here allocates ordinary memory while it holds the lock.
#pragma once

#include <cstddef>

#include "base/unique_fd.h"

namespace nd::share_memory {

// Each needs a descriptor. Further memory is ordinary memory.
inline constexpr std::size_t kMostBlocks = 256;

// Blocks are made from now on, in this process, with `most_bytes` together: fork() copies them.
void Begin(std::size_t most_bytes);

// A block of zeros, or null: Begin() was not called, this thread is in fork(), less than a page is wanted or
// aligned, there are too many blocks or bytes of them, or the kernel refuses. Then the caller takes ordinary
// memory.
void* Allocate(std::size_t alignment, std::size_t size);

// False: `memory` is not the beginning of a block. The pages go back to the system; address and memfd stay
// for the next block of that size, so that peers do not gather mappings.
//
// A program may have mapped other memory into a block, or protected pages of it. Nothing here touches that
// memory, and a child has it as of an ordinary program.
bool Free(void* memory);

// The whole pages of the range become zeros. False: no block contains it.
bool Discard(void* memory, std::size_t length);

// The bytes of the block that begins at `memory`; 0: none does.
std::size_t SizeOf(const void* memory);

// The block that contains the range stops being shared, and keeps its address and contents. No other thread
// may write to it meanwhile.
void MakeOrdinary(const void* address, std::size_t length);

struct Around {
  UniqueFd fd;  // A second descriptor.
  std::byte* begin = nullptr;
  std::size_t size = 0;
};
// The range lies in one block, which is still that of its memfd.
bool IsShared(const void* address, std::size_t length);

// The block that contains the range; without descriptor: there is none, or the program has mapped other
// memory there. Reads a file about this process.
Around FindAround(const void* address, std::size_t length);

}  // namespace nd::share_memory
