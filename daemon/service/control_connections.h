// SPDX-License-Identifier: Apache-2.0
// Counts the connections of gRPC by user and notices their end.
//
// gRPC owns the socket. A duplicate is kept only to notice the hang-up and to be able to end the connection.
// It is closed as soon as either side has shut the socket down. Loop thread.
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
  using HandOver = std::function<void(UniqueFd fd, const Peer& peer)>;
  // `hand_over` gives the socket to gRPC. With a `hello_timeout` of zero no Hello is required. `door`
  // outlives this.
  ControlConnections(EventLoop& loop, const char* name, ops::Door& door, Gate::Limits limits,
                     Duration hello_timeout, HandOver hand_over);
  ~ControlConnections();

  void Offer(UniqueFd fd, const Peer& peer) { gate_.Offer(std::move(fd), peer); }
  // The connection with this socket cookie has sent a valid Hello.
  void Proven(std::uint64_t cookie);
  const Gate& gate() const { return gate_; }

 private:
  struct Connection {
    UniqueFd fd;
    Peer peer;
    bool proven = false;
    std::optional<EventLoop::TimerId> deadline;
  };
  void AdmitWaitingSoon();
  void Admit(UniqueFd fd, const Peer& peer);
  void Ended(std::uint64_t cookie);

  EventLoop& loop_;
  const char* name_;
  ops::Door& door_;
  const Duration hello_timeout_;
  const HandOver hand_over_;
  std::map<std::uint64_t, Connection> connections_;
  Gate gate_;
  std::optional<EventLoop::TimerId> soon_;  // AdmitWaitingSoon() was called.
};

}  // namespace nd::service
