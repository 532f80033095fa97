// SPDX-License-Identifier: Apache-2.0
// A thread with a queue, joined by the destructor.
#include "daemon/service/worker.h"

#include <chrono>

#include "base/os/thread.h"

namespace nd::service {

Worker::Worker(const char* name) : thread_([this] { Run(); }) {
  os::NameThread(thread_, name);
}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Worker::PostFor(Account account, std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.Add(account, std::move(job));
  }
  wake_.notify_one();
}

void Worker::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto [account, job] = jobs_.Take();
    lock.unlock();
    const auto began = std::chrono::steady_clock::now();
    job();
    job = nullptr;  // Releases the captures of the job outside the lock, too.
    const Duration took = std::chrono::steady_clock::now() - began;
    lock.lock();
    jobs_.Charge(account, took);
  }
}

}  // namespace nd::service
