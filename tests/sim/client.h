// SPDX-License-Identifier: Apache-2.0
// What passes between a broker's shell and an application, in both directions.
#pragma once

#include <cstdint>
#include <variant>

#include "daemon/core/action.h"
#include "tests/sim/sim_cm.h"

namespace nd::sim {

// A descriptor on the fd lane.
struct HandOffMessage {
  std::uint64_t id = 0;
  core::Handle connector;
  SimCm::Transport transport;
};
// The session's sockets are closed.
struct SessionOver {
  bool broker_lost = false;
};

using Message = std::variant<core::Complete, core::SendConnectEvent, core::SendDisconnectEvent,
                             core::SendTransportCommand, core::SendAdapterEvent, HandOffMessage, SessionOver>;

// One session of one life of the broker; never used twice.
using Token = std::uint64_t;

class Client {
 public:
  virtual ~Client() = default;
  virtual void OnMessage(Token token, Message message) = 0;
  // False: what is sent to it stays in the socket.
  virtual bool Reads() const = 0;
};

}  // namespace nd::sim
