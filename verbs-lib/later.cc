// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/later.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "base/os/thread.h"

namespace nd::verbs_lib {
namespace {

using Clock = std::chrono::steady_clock;

struct Waiting {
  std::mutex mutex;
  std::condition_variable changed;
  std::multimap<Clock::time_point, std::function<void()>> functions;
  bool started = false;
};

// Never destroyed, because the thread is never ended.
Waiting& waiting() {
  static auto* instance = new Waiting;
  return *instance;
}

void Serve(void*) {
  Waiting& all = waiting();
  std::unique_lock lock(all.mutex);
  for (;;) {
    if (all.functions.empty()) {
      all.changed.wait(lock);
      continue;
    }
    const auto due = all.functions.begin()->first;
    if (Clock::now() < due) {
      all.changed.wait_until(lock, due);
      continue;
    }
    const std::function<void()> run = std::move(all.functions.begin()->second);
    all.functions.erase(all.functions.begin());
    lock.unlock();
    run();
    lock.lock();
  }
}

}  // namespace

void RunLater(std::chrono::nanoseconds delay, std::function<void()> run) {
  Waiting& all = waiting();
  std::lock_guard lock(all.mutex);
  all.functions.emplace(Clock::now() + delay, std::move(run));
  all.changed.notify_one();
  if (!all.started) all.started = os::StartLastingThread("ndbroker-later", Serve, nullptr);
}

}  // namespace nd::verbs_lib
