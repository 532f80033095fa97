// SPDX-License-Identifier: Apache-2.0
// The handler only closes descriptors and counts, which is allowed in the child of a process with threads.
#include "base/os/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

namespace nd::os {

namespace internal {
std::atomic<std::uint32_t> fork_generation{0};
}

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<bool> closes;  // By descriptor.
};

Registry& TheRegistry();

void InChild() {
  internal::fork_generation.fetch_add(1, std::memory_order_relaxed);
  std::vector<bool>& closes = TheRegistry().closes;
  for (std::size_t fd = 0; fd < closes.size(); ++fd) {
    if (closes[fd]) ::close(static_cast<int>(fd));
    closes[fd] = false;
  }
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
  if (fd < 0) return;
  Registry& registry = TheRegistry();
  const auto at = static_cast<std::size_t>(fd);
  std::lock_guard lock(registry.mutex);
  if (at >= registry.closes.size()) registry.closes.resize(std::max(at + 1, 2 * registry.closes.size()));
  registry.closes[at] = true;
}

void ForgetInChild(int fd) {
  Registry& registry = TheRegistry();
  std::lock_guard lock(registry.mutex);
  if (const auto at = static_cast<std::size_t>(fd); fd >= 0 && at < registry.closes.size())
    registry.closes[at] = false;
}

}  // namespace nd::os
