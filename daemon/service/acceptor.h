// SPDX-License-Identifier: Apache-2.0
// Accepts connections on one listening socket. No error of accept() stops it.
//
// When the process runs out of descriptors, a spare descriptor lets it accept one more connection and
// close it, so that the client gets an error at once; then it pauses briefly. All new clients together have
// the turns of one user of the loop: whoever connects without end delays other new clients, and nobody else.
// Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/event_loop.h"
#include "base/os/accept.h"
#include "base/unique_fd.h"
#include "daemon/service/door.h"
#include "daemon/service/peer.h"

namespace nd::service {

// The turns of clients that wait to be accepted; no user has this number.
inline constexpr Account kArrivals{~std::uint64_t{0}};

class Acceptor {
 public:
  using Accepted = std::function<void(UniqueFd, const Peer&)>;

  // `name` is for the log. `door` counts failures and outlives this. Starts at once.
  Acceptor(EventLoop& loop, const char* name, ops::Door& door, UniqueFd listener, Accepted accepted);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  bool Watch();
  void OnReadable();
  void OutOfDescriptors(int error);
  void Pause();

  EventLoop& loop_;
  const char* name_;
  ops::Door& door_;
  UniqueFd listener_;
  os::SpareDescriptor spare_;
  Accepted accepted_;
  std::optional<EventLoop::TimerId> pause_;
};

}  // namespace nd::service
