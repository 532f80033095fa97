// SPDX-License-Identifier: Apache-2.0
// How the messages of a session reach the broker. Applications do not need this: the library carries them on
// the fd lane. A library such as libndbroker_grpc adds another way by RegisterCarrier().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "nd/status.h"

namespace nd {

// Messages are opaque bytes: ndbroker.v1.ClientMessage up, ndbroker.v1.ServerMessage down.
class Carrier {
 public:
  // Called by one thread, in the order of arrival.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Must not wait for an answer by the same carrier. False: the session is over, nothing more is wanted.
    virtual bool OnMessage(std::span<const std::byte> message) = 0;
    // The last call. The sentence of `why` may be empty: the broker hung up.
    virtual void OnClosed(const Status& why) = 0;
  };

  virtual ~Carrier() = default;
  // Any thread; messages leave in the order of the calls. False when the session is over.
  virtual bool Send(std::span<const std::byte> message) = 0;
  // Ends the session and waits until the sink is no longer called. Not from the sink. A second call is
  // allowed.
  virtual void Close() = 0;
};

// `socket` is a connected stream socket of the broker, non-blocking, which the carrier owns from now on.
// `sink` outlives Close().
using OpenCarrier = std::unique_ptr<Carrier> (*)(int socket, Carrier::Sink* sink);

// From now on NDBROKER_SESSION=`name` in the environment chooses this carrier. Any thread; usually called
// while the program starts.
void RegisterCarrier(std::string_view name, OpenCarrier open);

}  // namespace nd
