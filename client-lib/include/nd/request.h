// SPDX-License-Identifier: Apache-2.0
// One asynchronous operation, as an OVERLAPPED of Network Direct.
//
// Give a Request to an operation and it returns PENDING at once; exactly one completion follows, which you
// meet in whichever way you like: ask GetResult(), wait for it, get a callback, or take it from the
// adapter's completion handle (Adapter::completion_handle(), for epoll). An operation that returns anything
// but PENDING is finished and there will be no completion. Without a Request an operation blocks.
//
// A Request may be used again when its operation is finished. Destroying it earlier is allowed: the
// operation goes on, its result is dropped and no callback runs any more (a running one is waited for,
// except from inside itself).
#pragma once

#include <functional>
#include <memory>

#include "nd/status.h"

namespace nd {

class Request {
 public:
  // `callback` runs once per operation on the library's dispatch thread; it may close and destroy
  // anything, this Request included. With a callback the completion handle stays silent.
  using Callback = std::function<void(const Status& status)>;

  Request();
  explicit Request(Callback callback);
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  // The operation's status; PENDING while it runs and `wait` is false. The same answer each time.
  // CONNECTION_INVALID when no operation was ever started with it.
  Status GetResult(bool wait = true);

  // Free for the application, e.g. to find its own object again.
  void* context = nullptr;

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace nd
