// SPDX-License-Identifier: Apache-2.0
// Programs that unmap memory before they deregister it. A device has pinned the pages and notices nothing.
// This library moves data by the processor, which faults: then an empty page takes the place of the missing
// one, and the queue pair that accessed it fails (base/os/memory_fault.h).
//
// Only faults of this library in registered memory are handled. Every other one is the program's, whose own
// handler for SIGSEGV and SIGBUS stays behind ours, whenever it was installed.
#pragma once

#include <csignal>
#include <cstddef>

namespace nd::verbs_lib {

// Thread rule: calls are serialised by the caller.
void GuardMemory(const void* address, std::size_t length);
void UnguardMemory(const void* address, std::size_t length);

namespace internal {
// This library is loaded when the program starts, so that its variables of threads need no call.
extern thread_local constinit int accesses __attribute__((tls_model("initial-exec")));
}  // namespace internal

// While one lives, this thread may access registered memory for the program.
class MemoryAccess {
 public:
  MemoryAccess() { ++internal::accesses; }
  ~MemoryAccess() { --internal::accesses; }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
};

// The program's sigaction(): true when `signal` is one that is handled here. Then `wanted` is kept for faults
// that are not ours, and `former` is set.
bool KeepAction(int signal, const struct sigaction* wanted, struct sigaction* former);

}  // namespace nd::verbs_lib
