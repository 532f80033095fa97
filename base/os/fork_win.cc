// SPDX-License-Identifier: Apache-2.0
// Windows has no fork: nothing ever happens.
#include "base/os/fork.h"

namespace nd::os {

namespace internal {
std::atomic<std::uint32_t> fork_generation{0};
}

ForkMark::ForkMark() : generation_(0) {}

void CloseInChild(int) {}
void ForgetInChild(int) {}

}  // namespace nd::os
