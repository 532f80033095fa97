// SPDX-License-Identifier: Apache-2.0
// The destination of the result of an operation: a waiter, a callback, or the completion handle.
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

// The queue of finished Requests, with an eventfd. Any thread.
class CompletionPort {
 public:
  CompletionPort();
  int handle() const { return event_.get(); }
  void Push(std::shared_ptr<Request::State> state);
  void Remove(const Request::State* state);
  Request* Pop();  // Null when it is empty.

 private:
  std::mutex mutex_;
  UniqueFd event_;
  std::deque<std::shared_ptr<Request::State>> waiting_;
};

}  // namespace nd::client

namespace nd {

// Shared by the Request and the operation that runs with it. Any thread.
struct Request::State : std::enable_shared_from_this<Request::State> {
  // The state of a blocking call, which uses no completion handle.
  State() = default;
  State(Request* request, Callback function) : owner_(request), callback_(std::move(function)) {}

  // Returns false while an operation uses it.
  bool Start(const std::shared_ptr<client::CompletionPort>& port);
  // The operation was not started; restores the state before Start().
  void Abort();
  // Exactly once per Start(). The callback, if any, is posted to `dispatcher`.
  void Finish(Status status, client::Dispatcher& dispatcher);

  Status GetResult(bool wait);
  // Returns false when the operation did not finish before `deadline`.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline);

  void SetOwner(Request* request);
  Request* owner();
  // The Request is destroyed: its callback does not run any more. Waits for a running callback, unless called
  // from it.
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
