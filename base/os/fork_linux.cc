// SPDX-License-Identifier: Apache-2.0
// The handler only closes descriptors and counts, which is allowed in the child of a process with threads.
#include "base/os/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace nd::os {

namespace internal {
std::atomic<std::uint32_t> fork_generation{0};
}

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<int> fds;
};

Registry& TheRegistry();

void InChild() {
  internal::fork_generation.fetch_add(1, std::memory_order_relaxed);
  for (const int fd : TheRegistry().fds) ::close(fd);
  TheRegistry().fds.clear();
  TheRegistry().mutex.unlock();
}

// Never destroyed, because children and detached threads may use it late.
Registry& TheRegistry() {
  static Registry* const registry = [] {
    auto* made = new Registry;
    ::pthread_atfork([] { TheRegistry().mutex.lock(); }, [] { TheRegistry().mutex.unlock(); }, InChild);
    return made;
  }();
  return *registry;
}

}  // namespace

ForkMark::ForkMark() {
  TheRegistry();  // Children are counted from now on.
  generation_ = internal::fork_generation.load(std::memory_order_relaxed);
}

void CloseInChild(int fd) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  registry.fds.push_back(fd);
}

void ForgetInChild(int fd) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  std::erase(registry.fds, fd);
}

}  // namespace nd::os
