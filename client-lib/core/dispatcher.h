// SPDX-License-Identifier: Apache-2.0
// The thread of a session that runs application callbacks in order of posting.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace nd::client {

class Dispatcher {
 public:
  Dispatcher() = default;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;
  ~Dispatcher();

  // Any thread. The thread starts with the first task. After Stop() the task runs at once, in the caller.
  void Post(std::function<void()> task);
  // As Post(), but returns false and does nothing where Post() would run the task at once. For callers that
  // hold a lock.
  bool TryPost(std::function<void()>& task);
  // As Post(), but runs the task in the caller while nothing was ever posted: it cannot overtake a callback
  // then, and an application without callbacks needs no thread.
  void PostUnlessUnused(std::function<void()> task);
  // True on the dispatch thread itself.
  bool OnThread() const;
  // Waits until all posted tasks have run and ends the thread. On the dispatch thread it only requests that.
  void Stop();

 private:
  void Run();

  bool used() const;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace nd::client
