// SPDX-License-Identifier: Apache-2.0
// The connections that belong to gRPC, as far as we must know of them: how many, whose, and when they end.
//
// gRPC owns the socket. A duplicate is kept only to hear the hang-up and to be able to end the connection;
// it is closed as soon as either side has shut the socket down. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/event_loop.h"
#include "daemon/service/gate.h"

namespace nd::service {

class ControlConnections {
 public:
  // `hand_over` gives the socket to gRPC. Zero `hello_timeout`: nothing has to be proven.
  // `door` outlives this.
  ControlConnections(EventLoop& loop, const char* name, ops::Door& door, Gate::Limits limits,
                     Duration hello_timeout, std::function<void(int fd)> hand_over);
  ~ControlConnections();

  void Offer(UniqueFd fd, const Peer& peer) { gate_.Offer(std::move(fd), peer); }
  // The connection with this socket cookie said a good Hello.
  void Proven(std::uint64_t cookie);
  const Gate& gate() const { return gate_; }

 private:
  struct Connection {
    UniqueFd fd;
    Peer peer;
    bool proven = false;
    std::optional<EventLoop::TimerId> deadline;
  };
  void Admit(UniqueFd fd, const Peer& peer);
  void Ended(std::uint64_t cookie);

  EventLoop& loop_;
  const char* name_;
  ops::Door& door_;
  const Duration hello_timeout_;
  const std::function<void(int)> hand_over_;
  std::map<std::uint64_t, Connection> connections_;
  Gate gate_;
};

}  // namespace nd::service
