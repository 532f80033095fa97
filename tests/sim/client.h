// SPDX-License-Identifier: Apache-2.0
// The messages between the shell of a broker and an application, in both directions.
#pragma once

#include <cstdint>
#include <variant>

#include "daemon/core/action.h"
#include "tests/sim/host_cm.h"

namespace nd::sim {

// A descriptor on the fd lane.
struct HandOffMessage {
  std::uint64_t id = 0;
  core::Handle connector;
  HostCm::Transport transport;
};
// The sockets of the session are closed.
struct SessionOver {
  bool broker_lost = false;
};

using Message = std::variant<core::Complete, core::SendConnectEvent, core::SendDisconnectEvent,
                             core::SendTransportCommand, core::SendAdapterEvent, HandOffMessage, SessionOver>;

// Names one session of one life of the broker; never reused.
using Token = std::uint64_t;

class Client {
 public:
  virtual ~Client() = default;
  virtual void OnMessage(Token token, Message message) = 0;
  // Returns false when messages to the client stay in the socket.
  virtual bool Reads() const = 0;
};

}  // namespace nd::sim
