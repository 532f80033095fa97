// SPDX-License-Identifier: Apache-2.0
// One fork handler for all sessions. It only closes descriptors and increments a number, which is allowed in
// the child of a process with threads.
#include "client-lib/core/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace nd::client {

std::atomic<std::uint32_t> fork_generation{0};

namespace {

std::atomic<bool> in_use{false}, born_too_late{false};

struct Registry {
  std::mutex mutex;
  std::vector<int> fds;
  std::vector<std::shared_ptr<const void>> leaked;
};

// Never destroyed, because children and detached threads may use it late.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

void Install() {
  static const int installed =
      pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] {
                       fork_generation.fetch_add(1, std::memory_order_relaxed);
                       if (in_use) born_too_late = true;
                       for (int fd : registry().fds) close(fd);
                       registry().fds.clear();
                       registry().mutex.unlock();
                     });
  static_cast<void>(installed);
}

}  // namespace

ForkMark::ForkMark() {
  Install();
  generation_ = fork_generation.load(std::memory_order_relaxed);
}

void CloseInChild(int fd) {
  Install();
  std::lock_guard lock(registry().mutex);
  registry().fds.push_back(fd);
}

void ForgetInChild(int fd) {
  std::lock_guard lock(registry().mutex);
  auto& fds = registry().fds;
  fds.erase(std::remove(fds.begin(), fds.end(), fd), fds.end());
}

void UseUnforkable() {
  Install();
  in_use = true;
}

bool ForkedAfterUse() {
  return born_too_late;
}

void Leak(std::shared_ptr<const void> object) {
  std::lock_guard lock(registry().mutex);
  registry().leaked.push_back(std::move(object));
}

}  // namespace nd::client
