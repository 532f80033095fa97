// SPDX-License-Identifier: Apache-2.0
// Where the result of an operation goes: a waiter, a callback, or the completion handle.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/unique_fd.h"
#include "client-lib/src/dispatcher.h"
#include "nd/request.h"

namespace nd::client {

// Finished Requests that wait to be taken, behind an eventfd. Any thread.
class CompletionPort {
 public:
  CompletionPort();
  int handle() const { return event_.get(); }
  void Push(std::shared_ptr<Request::State> state);
  void Remove(const Request::State* state);
  Request* Pop();  // Null when none waits.

 private:
  std::mutex mutex_;
  UniqueFd event_;
  std::deque<std::shared_ptr<Request::State>> waiting_;
};

}  // namespace nd::client

namespace nd {

// Shared by the Request and the operation that runs with it. Any thread.
struct Request::State : std::enable_shared_from_this<Request::State> {
  // An anonymous one, of a blocking call: it goes to no completion handle.
  State() = default;
  State(Request* request, Callback function) : owner_(request), callback_(std::move(function)) {}

  // False while an operation runs with it.
  bool Start(const std::shared_ptr<client::CompletionPort>& port);
  // The operation never began; as before Start().
  void Abort();
  // Exactly once per Start(). The callback, if any, is posted to `dispatcher`.
  void Finish(Status status, client::Dispatcher& dispatcher);

  Status GetResult(bool wait);
  // False when nothing finished before `deadline`.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline);

  void SetOwner(Request* request);
  Request* owner();
  // The Request is gone: no callback any more; a running one is waited for, except from inside itself.
  void Abandon();

 private:
  void RunCallback();

  std::mutex mutex_;
  std::condition_variable changed_;
  Request* owner_ = nullptr;
  const Callback callback_;
  bool pending_ = false;
  bool ever_ = false;
  bool abandoned_ = false;
  std::uint32_t running_ = 0;  // Callbacks in progress.
  std::thread::id runner_;
  Status result_;
  std::shared_ptr<client::CompletionPort> port_;
};

}  // namespace nd
