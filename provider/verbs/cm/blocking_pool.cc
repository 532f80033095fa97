// SPDX-License-Identifier: Apache-2.0
// One slow rdma_destroy_id must not stop the loop of the daemon.
#include "provider/verbs/cm/blocking_pool.h"

#include <utility>

namespace nd::provider::verbs {

BlockingPool::~BlockingPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Submit(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  if (queue_.size() > idle_ && threads_.size() < max_threads_) threads_.emplace_back([this] { Run(); });
  wake_.notify_one();
}

void BlockingPool::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // Its captures may block in their destructors.
    lock.lock();
  }
}

}  // namespace nd::provider::verbs
