// SPDX-License-Identifier: Apache-2.0
// Interrupts system calls of one thread that wait although they should not: made, used and destroyed there.
//
// A process that shares a socket can make calls on it wait at any time (O_NONBLOCK, SO_LINGER). Without a
// timer of the system the alarm does nothing.
#pragma once

#include <memory>

#include "base/clock.h"

namespace nd::os {

class CallAlarm {
 public:
  explicit CallAlarm(Duration longest);
  ~CallAlarm();
  CallAlarm(const CallAlarm&) = delete;
  CallAlarm& operator=(const CallAlarm&) = delete;

  // A call that begins after Set() and waits for longer than `longest` ends with EINTR. A close ends too, and
  // the system finishes it.
  void Set();
  void Clear();

 private:
  class Impl;
  const Duration longest_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::os
