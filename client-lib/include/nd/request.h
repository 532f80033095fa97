// SPDX-License-Identifier: Apache-2.0
// One asynchronous operation; the counterpart of Network Direct's OVERLAPPED.
//
// An operation that is given a Request returns PENDING, and exactly one completion follows. The application
// learns of it by GetResult(), by a callback, or through Adapter::completion_handle() in an epoll loop. An
// operation that returns any other status is finished and has no completion. An operation without a Request
// blocks.
//
// A Request may be used again when its operation is finished. Destroying it earlier is allowed: the
// operation continues, its result is dropped and its callback does not run. The destructor waits for a
// callback that is running, unless the callback itself destroys the Request.
#pragma once

#include <functional>
#include <memory>

#include "nd/status.h"

namespace nd {

class Request {
 public:
  // Runs once per operation on the library's dispatch thread. It may close and destroy any object, this
  // Request included. A Request with a callback does not make the completion handle readable.
  using Callback = std::function<void(const Status& status)>;

  Request();
  explicit Request(Callback callback);
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  // The status of the operation, the same at each call. Blocks while the operation is pending; with `wait`
  // false it returns PENDING instead. Returns CONNECTION_INVALID if the Request was never used.
  Status GetResult(bool wait = true);

  // For the application's own use; the library does not touch it.
  void* context = nullptr;

  struct State;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace nd
