// SPDX-License-Identifier: Apache-2.0
// A thread for work that must not delay the loop: reading /proc, encoding long lists. Work that a client can
// block does not belong here; the Reaper closes descriptors that clients share.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/turns.h"

namespace nd::service {

class Worker {
 public:
  // `name` is the name of the thread for tools; at most 15 characters.
  explicit Worker(const char* name);
  // Runs the posted jobs, then ends.
  ~Worker();

  // Any thread. The jobs of an account run in the order of posting; accounts take turns (base/turns.h).
  void Post(std::function<void()> job) { PostFor(Account::kCommon, std::move(job)); }
  void PostFor(Account account, std::function<void()> job);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  Turns<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nd::service
