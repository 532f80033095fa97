// SPDX-License-Identifier: Apache-2.0
// The close of a socket can wait for its peer. These calls keep that wait short.
#pragma once

#include <memory>

#include "base/clock.h"

namespace nd::service {

// Makes the last close of a socket reset the connection instead of waiting for its peer. The client library
// never sets SO_LINGER, so only other clients are affected. The client can set it again afterwards.
void ResetInsteadOfLingering(int fd);

// Interrupts the closes of one thread: made, used and destroyed there. Without a timer of the system it does
// nothing.
class CloseAlarm {
 public:
  explicit CloseAlarm(Duration longest);
  ~CloseAlarm();
  // A close that begins after Set() and takes longer than `longest` ends, and the system finishes it.
  void Set();
  void Clear();

 private:
  class Impl;
  const Duration longest_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd::service
