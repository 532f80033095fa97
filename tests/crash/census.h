// SPDX-License-Identifier: Apache-2.0
// The resources of a process, as the kernel reports them. Any thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

namespace nd::crash {

struct Census {
  // "socket", "memfd:nd-segment", "anon_inode:[eventpoll]", a file's path -> how many descriptors.
  std::map<std::string, int> descriptors;
  // Name of each memfd that is mapped -> how many mappings.
  std::map<std::string, int> mappings;
  // Name -> how many threads. Threads of gRPC are left out, because their number depends on the timing of
  // calls.
  std::map<std::string, int> threads;
  friend bool operator==(const Census&, const Census&) = default;
};

Census Take(pid_t pid);
// Describes what `after` has more (+) or less (-) than `before`; "" when they are equal.
std::string Difference(const Census& before, const Census& after);
// Describes why a process hangs: its threads, their states, and the functions in which they wait.
std::string StateOf(pid_t pid);

}  // namespace nd::crash
