// SPDX-License-Identifier: Apache-2.0
// One thread that runs functions of other threads, one at a time. Thread rule: any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace nd::provider::verbs {

class Maker {
 public:
  Maker();
  ~Maker();
  // Runs `make` on the maker's thread and returns when it is done.
  void Run(const std::function<void()>& make);

 private:
  void Loop();
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* next_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nd::provider::verbs
