// SPDX-License-Identifier: Apache-2.0
// A thread with a queue, joined by the destructor.
#include "daemon/service/worker.h"

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

void Worker::Post(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Worker::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // Releases the captures of the job outside the lock, too.
    lock.lock();
  }
}

}  // namespace nd::service
