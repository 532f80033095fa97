// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/spin_thread.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/os/thread.h"
#include "verbs-lib/settings.h"

namespace nd::verbs_lib {
namespace {

// Gives way to a thread that waits for the processor and for the mutex, so often.
constexpr int kRoundsBetweenYields = 64;

struct Spinning {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<nd::CompletionQueue*> queues;
  std::atomic<int> others{0};  // Threads that want `mutex`. The thread that spins would not let them have it.
  bool started = false;
};

// Never destroyed, because the thread is never ended.
Spinning& spinning() {
  static auto* instance = new Spinning;
  return *instance;
}

void SpinForever(void*) {
  Spinning& all = spinning();
  std::unique_lock lock(all.mutex);
  for (;;) {
    all.changed.wait(lock, [&all] { return !all.queues.empty(); });
    for (int i = 0; i < kRoundsBetweenYields; ++i) {
      // Takes no completion: those are the program's.
      for (nd::CompletionQueue* queue : all.queues) static_cast<void>(queue->Poll({}));
    }
    lock.unlock();
    do sched_yield();
    while (all.others.load() != 0);
    lock.lock();
  }
}

}  // namespace

void SpinOn(nd::CompletionQueue* queue) {
  if (!GetSettings().spin) return;
  Spinning& all = spinning();
  ++all.others;
  std::lock_guard lock(all.mutex);
  --all.others;
  all.queues.push_back(queue);
  all.changed.notify_one();
  if (!all.started) all.started = os::StartLastingThread("ndbroker-spin", SpinForever, nullptr);
}

void StopSpinningOn(nd::CompletionQueue* queue) {
  if (!GetSettings().spin) return;
  Spinning& all = spinning();
  ++all.others;
  std::lock_guard lock(all.mutex);
  --all.others;
  std::erase(all.queues, queue);
}

}  // namespace nd::verbs_lib
