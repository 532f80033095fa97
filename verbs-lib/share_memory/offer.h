// SPDX-License-Identifier: Apache-2.0
// What the library of shared memory (`ndctl run`) offers to the library of verbs programs in the same
// process. Both are preloaded, and each is found by name, so that neither needs the other.
#pragma once

#include <cstddef>

extern "C" {

// The program has opened a device: buffers that it allocates from now on are shared. `all`: those of
// malloc(), too, and without a bound of their size.
void ndbroker_share_memory(bool all);

// The block around [address, address + length). Sets `begin` and `size`, and returns a second descriptor of
// its memfd, which the caller closes. -1: no block contains that memory.
int ndbroker_memory_around(const void* address, std::size_t length, void** begin, std::size_t* size);
}
