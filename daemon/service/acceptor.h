// SPDX-License-Identifier: Apache-2.0
// Accepts on one listening socket for ever: no error of accept() makes it deaf.
//
// When the process runs out of descriptors, one kept in reserve lets it take the newest connection and close
// it, so that its client learns at once; then it pauses a moment. Loop thread.
#pragma once

#include <functional>
#include <optional>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "daemon/ops/door.h"
#include "daemon/service/peer.h"

namespace nd::service {

class Acceptor {
 public:
  using Accepted = std::function<void(UniqueFd, const Peer&)>;

  // `name` for the log; `door` counts what goes wrong and outlives this. Starts at once.
  Acceptor(EventLoop& loop, const char* name, ops::Door& door, UniqueFd listener, Accepted accepted);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  void OnReadable();
  void OutOfDescriptors(int error);
  void Pause();

  EventLoop& loop_;
  const char* name_;
  ops::Door& door_;
  UniqueFd listener_, reserve_;
  Accepted accepted_;
  std::optional<EventLoop::TimerId> pause_;
};

}  // namespace nd::service
