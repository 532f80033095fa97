// SPDX-License-Identifier: Apache-2.0
// One thread for what must not hold up the loop: closing sockets that a client can make linger, reading
// /proc, turning long lists into messages.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace nd::service {

class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}
  // Runs what was posted, then ends.
  ~Worker();

  // Any thread. In order of posting.
  void Post(std::function<void()> job);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nd::service
