// SPDX-License-Identifier: Apache-2.0
// Fork awareness and the process-wide barrier need the operating system; the rest of sync.h is inline.
#include "provider/soft/qp/sync.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace nd::provider::soft {

namespace internal {
std::atomic<std::uint32_t> fork_generation{0};
}

namespace {

// Deliberately never destroyed: the fork handlers outlive static destruction.
struct ForkState {
  std::mutex mutex;
  std::vector<int> fds;
};
ForkState& State();

void BeforeFork() {
  State().mutex.lock();
}
void AfterForkInParent() {
  State().mutex.unlock();
}
void AfterForkInChild() {
  internal::fork_generation.fetch_add(1, std::memory_order_relaxed);
  for (int fd : State().fds) ::close(fd);
  State().fds.clear();
  State().mutex.unlock();
}

ForkState& State() {
  static ForkState* state = [] {
    auto* made = new ForkState;
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    return made;
  }();
  return *state;
}

int Membarrier(int command) {
  return static_cast<int>(syscall(SYS_membarrier, command, 0, 0));
}

}  // namespace

void CloseInForkedChild(int fd) {
  std::lock_guard lock(State().mutex);
  State().fds.push_back(fd);
}

void ForgetInForkedChild(int fd) {
  std::lock_guard lock(State().mutex);
  std::erase(State().fds, fd);
}

bool RegisterGlobalBarrier() {
  static const bool registered = Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  return registered;
}

bool GlobalBarrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return RegisterGlobalBarrier() && Membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

}  // namespace nd::provider::soft
