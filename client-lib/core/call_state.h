// SPDX-License-Identifier: Apache-2.0
// The destination of the result of a call: a waiter, a callback, or the completion handle.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/os/semaphore.h"
#include "base/os/wake_event.h"
#include "client-lib/core/dispatcher.h"
#include "nd/status.h"

namespace nd::client {

class CallState;

// The queue of finished calls without a callback, with an eventfd. Any thread.
class CompletionPort {
 public:
  int handle() const { return event_.handle(); }
  void Push(std::shared_ptr<CallState> state);
  void Remove(const CallState* state);
  void* Pop();  // The owner of the oldest finished call; null when there is none.

 private:
  std::mutex mutex_;
  os::WakeEvent event_;
  std::deque<std::shared_ptr<CallState>> waiting_;
};

// Shared by its owner, which is the binding's request object, and the call that runs with it. Any thread.
class CallState : public std::enable_shared_from_this<CallState> {
 public:
  using Callback = std::function<void(const Status&)>;

  // The state of a blocking call, which uses no completion handle.
  CallState() = default;
  CallState(void* owner, Callback callback) : owner_(owner), callback_(std::move(callback)) {}

  // Returns false while a call uses it.
  bool Start(const std::shared_ptr<CompletionPort>& port);
  // The call was not started; restores the state before Start().
  void Abort();
  // Exactly once per Start(). The callback, if any, is posted to `dispatcher`.
  void Finish(Status status, Dispatcher& dispatcher);

  Status GetResult(bool wait);
  // Returns false when the call did not finish before `deadline`.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline);

  void SetOwner(void* owner);
  void* owner();
  // The owner is destroyed: the callback does not run any more. Waits for a running callback, unless called
  // from it.
  void Abandon();

 private:
  void RunCallback();

  std::mutex mutex_;
  // Threads that wait for the end of the call; it gives each of them a unit, and none to later ones.
  std::uint32_t waiting_ = 0;
  os::Semaphore finished_;
  std::condition_variable changed_;  // running_
  void* owner_ = nullptr;
  const Callback callback_;
  bool pending_ = false;
  bool ever_ = false;
  bool abandoned_ = false;
  std::uint32_t running_ = 0;  // Callbacks in progress.
  std::thread::id runner_;
  Status result_;
  std::shared_ptr<CompletionPort> port_;
};

// How a call answers. Blocking: it returns its result. Otherwise it returns PENDING, and the result goes to
// `state`; INVALID_PARAMETER when `state` is null or in use.
class Caller {
 public:
  Caller() = default;  // Blocking.
  explicit Caller(std::shared_ptr<CallState> state) : blocks_(false), state_(std::move(state)) {}

  bool blocks() const { return blocks_; }
  const std::shared_ptr<CallState>& state() const { return state_; }

 private:
  bool blocks_ = true;
  std::shared_ptr<CallState> state_;
};

}  // namespace nd::client
