// SPDX-License-Identifier: Apache-2.0
// The one thread of a session on which application callbacks run, in the order of posting.
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
  // False, and nothing done, where Post() would run the task at once: for callers that hold a lock.
  bool TryPost(std::function<void()>& task);
  // Post(), but in the caller while nothing was ever posted: there is no callback that it could overtake, and
  // an application without callbacks needs no thread for them.
  void PostUnlessUnused(std::function<void()> task);
  // True on the dispatch thread itself.
  bool OnThread() const;
  // Runs what was posted, waits for it and ends the thread; from the dispatch thread itself, only says so.
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
