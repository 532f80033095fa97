// SPDX-License-Identifier: Apache-2.0
// What a process has, as its kernel sees it. Any thread.
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
  // Name -> how many threads. Those that gRPC keeps by itself are left out: their number depends on how its
  // calls happened to overlap.
  std::map<std::string, int> threads;
  friend bool operator==(const Census&, const Census&) = default;
};

Census Take(pid_t pid);
// What `after` has more (+) or less (-) than `before`; "" when they are equal.
std::string Difference(const Census& before, const Census& after);
// Everything that helps to see why a process does not move: threads with their state, what each waits for.
std::string StateOf(pid_t pid);

}  // namespace nd::crash
