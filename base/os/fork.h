// SPDX-License-Identifier: Apache-2.0
// Children that the application makes by fork(). Such a child has one thread, and copies of the memory and of
// the descriptors of its parent. It must not act for its parent, and it must not keep the connections of its
// parent alive. This is the only fork handler of the library. On a system without fork nothing ever happens.
//
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace nd::os {

namespace internal {
extern std::atomic<std::uint32_t> fork_generation;
}

// Remembers the process that made it.
class ForkMark {
 public:
  ForkMark();
  // True in a child of that process. Cheap enough for the data path.
  bool InChild() const { return internal::fork_generation.load(std::memory_order_relaxed) != generation_; }

 private:
  std::uint32_t generation_;
};

// Closes `fd` in every child of this process, from now until ForgetInChild(). The caller still owns it.
void CloseInChild(int fd);
void ForgetInChild(int fd);

}  // namespace nd::os
