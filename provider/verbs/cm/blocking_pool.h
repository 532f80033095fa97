// SPDX-License-Identifier: Apache-2.0
// Threads for the kernel calls that may block for seconds: rdma_destroy_id, and rdma_connect on iWARP.
//
// A thread is added whenever work waits and none is idle, up to a bound; idle threads stay.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nd::provider::verbs {

class BlockingPool {
 public:
  explicit BlockingPool(unsigned max_threads) : max_threads_(max_threads) {}
  // Runs everything that was submitted, then ends.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Any thread. Work starts in order of submission.
  void Submit(std::function<void()> work);

 private:
  void Run();

  const unsigned max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool ending_ = false;
};

}  // namespace nd::provider::verbs
