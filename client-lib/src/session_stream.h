// SPDX-License-Identifier: Apache-2.0
// The control stream to the broker, whatever carries it.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "client-lib/src/lane.h"
#include "client-lib/src/message.h"

namespace nd::client {

class SessionStream {
 public:
  // Called by one reader thread, in the order of arrival. Must not block on the same stream's answers.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnMessage(Incoming message) = 0;
    // Last call: the stream is over.
    virtual void OnClosed(const Status& why) = 0;
  };

  virtual ~SessionStream() = default;
  // Any thread; messages leave in the order of the calls. False when the stream is over.
  virtual bool Send(const Op& op) = 0;
  // Ends the stream and waits until the sink is no longer called. Not from the sink. Twice is fine.
  virtual void Close() = 0;
};

// Speaks on the lane, which must outlive it; from now on it alone reads the lane. `sink` must outlive
// Close().
std::unique_ptr<SessionStream> OpenLaneStream(Lane& lane, SessionStream::Sink* sink);
// Speaks gRPC on `socket`, a connected Unix stream socket. `sink` must outlive Close().
std::unique_ptr<SessionStream> OpenGrpcStream(UniqueFd socket, SessionStream::Sink* sink);

}  // namespace nd::client
