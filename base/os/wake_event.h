// SPDX-License-Identifier: Apache-2.0
// A flag that one thread sets and another waits for through a descriptor. Any thread.
#pragma once

#include "base/unique_fd.h"

namespace nd::os {

class WakeEvent {
 public:
  // Not set at first. False: the process has no descriptor left, and the calls do nothing.
  WakeEvent();
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Readable while the flag is set.
  int handle() const { return fd_.get(); }
  void Set() const;
  void Clear() const;

 private:
  UniqueFd fd_;
};

}  // namespace nd::os
