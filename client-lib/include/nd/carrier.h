// SPDX-License-Identifier: Apache-2.0
// How the messages of a session reach the broker. Applications do not need this: the library carries them on
// the fd lane. A library such as libndbroker_grpc adds another way by RegisterCarrier().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "nd/status.h"

namespace nd {

// Messages are opaque bytes: ndbroker.v1.ClientMessage up, ndbroker.v1.ServerMessage down.
class Carrier {
 public:
  // Called by one thread at a time, in the order of arrival.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Must not wait for an answer by the same carrier. Returns false when the session is over and no further
    // message is wanted.
    virtual bool OnMessage(std::span<const std::byte> message) = 0;
    // The last call. `why` is the reason; an empty sentence means that the broker hung up.
    virtual void OnClosed(const Status& why) = 0;
    // Returns true when no message is awaited now and a caller of ReadWhile() will probably await the next
    // one.
    virtual bool AwaitsNothing() { return false; }
  };

  virtual ~Carrier() = default;
  // Any thread; messages leave in the order of the calls. Returns false when the session is over.
  virtual bool Send(std::span<const std::byte> message) = 0;
  // Ends the session and waits until the sink is no longer called. Not from the sink. A second call is
  // allowed.
  virtual void Close() = 0;
  // The calling thread waits for a message as long as `waiting` returns true. It may call the sink itself,
  // which saves the wake-up of another thread. Returns at once when another thread reads.
  virtual void ReadWhile(const std::function<bool()>& /*waiting*/) {}
  // Tells the carrier that a message is awaited without a caller of ReadWhile(). Call it after Send().
  virtual void Attend() {}
};

// `socket` is a connected stream socket of the broker, non-blocking, which the carrier owns from now on.
// `sink` outlives Close().
using OpenCarrier = std::unique_ptr<Carrier> (*)(int socket, Carrier::Sink* sink);

// From now on NDBROKER_SESSION=`name` in the environment chooses this carrier. Any thread; usually called
// while the program starts.
void RegisterCarrier(std::string_view name, OpenCarrier open);

}  // namespace nd
