// SPDX-License-Identifier: Apache-2.0
// The client's end of the fd lane: tokens, hand-overs and counters pages in, acknowledgements out, and
// messages both ways when the session is held here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "client-lib/src/counters_pages.h"
#include "nd/status.h"
#include "provider/hand_off.h"

namespace nd::client {

// Any thread.
class Lane {
 public:
  explicit Lane(UniqueFd socket);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // What the keeper of a session watches to Drain(); -1 once CarryMessages().
  int fd() const { return carries_ ? -1 : socket_.get(); }

  // The first datagram. IO_TIMEOUT; DEVICE_NOT_READY: the broker hung up instead; REMOTE_ERROR: not a token.
  Result<std::string> ReadToken(Time deadline);
  // Whether the broker takes messages here; known from the token.
  bool takes_messages() const { return takes_messages_; }

  // Before anybody else uses the lane: from now on one thread calls Receive(), and Drain() does nothing.
  void CarryMessages() { carries_ = true; }
  // The next message, waiting for it; what else comes is handled on the way. The bytes are valid until the
  // next call. Errors as Drain().
  Result<std::span<const std::byte>> Receive();
  // A whole datagram; waits for room. Not two at once. CONNECTION_DISCONNECTED: the lane is over.
  Status Send(std::span<const std::byte> datagram);
  // Ends every call that waits.
  void Shutdown();

  // Takes everything that is there, checks and acknowledges it. Never blocks. SUCCESS: nothing more now;
  // anything else ends the session: CONNECTION_DISCONNECTED: hung up; REMOTE_ERROR, ACCESS_VIOLATION: what
  // came was wrong.
  Status Drain();
  // The hand-over of that id, once. Datagrams precede the completion that names them, so that a missing one
  // (empty) after Drain() never comes.
  std::optional<provider::HandOff> Take(std::uint64_t id);
  const std::shared_ptr<CountersPages>& counters() const { return counters_; }

 private:
  Status Handle(std::span<const std::byte> datagram, std::vector<UniqueFd> fds);
  Status Acknowledge(std::uint64_t id);
  Status SendAcknowledgements();
  Result<std::span<const std::byte>> ReceiveMessages();

  std::mutex mutex_;
  UniqueFd socket_;
  bool takes_messages_ = false;
  bool carries_ = false;
  std::unique_ptr<std::byte[]> buffer_;  // Of Receive(). Mostly untouched memory.
  std::span<const std::byte> unheard_;   // The messages in it that are still to be returned.
  std::deque<std::uint64_t> unacknowledged_;
  std::shared_ptr<CountersPages> counters_ = std::make_shared<CountersPages>();
  std::map<std::uint64_t, provider::HandOff> waiting_;
};

}  // namespace nd::client
