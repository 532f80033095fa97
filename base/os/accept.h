// SPDX-License-Identifier: Apache-2.0
// Accepts connections of a listening socket, and keeps a descriptor in reserve for the case that none is
// left. Any thread; one at a time for each object.
#pragma once

#include "base/unique_fd.h"

namespace nd::os {

struct Accepted {
  enum class Result {
    kConnection,  // `fd` is a connection: non-blocking, not inherited by child processes.
    kNone,        // No connection waits, or a signal interrupted the call.
    kExhausted,   // The process, or the host, has no descriptor or no memory left for one.
    kFailed,      // Any other error. A retry at once would fail too.
  };
  Result result = Result::kNone;
  UniqueFd fd;
  int error = 0;  // The errno of kExhausted and kFailed; EINTR with kNone: a signal interrupted the call.
};

// Never blocks when the listening socket is non-blocking. Skips connections that ended before they were
// accepted.
Accepted Accept(int listener);

// A descriptor kept in reserve. It is closed when the process has no other descriptor left, so that one more
// connection can be accepted.
class SpareDescriptor {
 public:
  SpareDescriptor() { Refill(); }
  // True while the descriptor is open.
  explicit operator bool() const { return static_cast<bool>(fd_); }
  // Gives the descriptor up, for another use.
  void Release() { fd_.reset(); }
  // Opens it again if it is gone. It stays gone while the process has no descriptor.
  void Refill();
  // Accepts the connection that waits for the longest time, for the caller to close, so that its client gets
  // an error at once instead of waiting. Empty when that fails. Call Refill() after the close.
  UniqueFd AcceptToRefuse(int listener);

 private:
  UniqueFd fd_;
};

}  // namespace nd::os
