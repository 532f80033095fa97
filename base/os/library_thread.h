// SPDX-License-Identifier: Apache-2.0
// Threads that belong to this library and run nothing of the application but its callbacks.
#pragma once

namespace nd::os {

namespace internal {
inline thread_local constinit bool library_thread = false;
}

// This thread is one, until it ends.
inline void MarkLibraryThread() {
  internal::library_thread = true;
}
// For signal handlers, too.
inline bool InLibraryThread() {
  return internal::library_thread;
}

}  // namespace nd::os
