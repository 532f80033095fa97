// SPDX-License-Identifier: Apache-2.0
// The client end of the fd lane: receives the token, hand-overs and counters pages, sends acknowledgements,
// and carries messages both ways when the session uses the lane.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd_lane.h"
#include "base/unique_fd.h"
#include "client-lib/core/mapped_counters.h"
#include "nd/status.h"
#include "provider/halves_record.h"
#include "provider/hand_off.h"

namespace nd::client {

// Any thread.
class BrokerLane {
 public:
  explicit BrokerLane(UniqueFd socket);
  ~BrokerLane();
  BrokerLane(const BrokerLane&) = delete;
  BrokerLane& operator=(const BrokerLane&) = delete;

  // The descriptor that the keeper watches to Drain(); -1 after CarryMessages().
  int fd() const { return carries_ ? -1 : socket_.get(); }

  // Reads the first datagram. IO_TIMEOUT; DEVICE_NOT_READY: the broker closed the socket; REMOTE_ERROR: not a
  // token.
  Result<std::string> ReadToken(Time deadline);
  // True when the broker accepts messages on the lane, according to the token.
  bool takes_messages() const { return takes_messages_; }
  // True when it accepts several of them in one datagram.
  bool takes_many_messages() const { return takes_many_messages_; }
  // True when its Reattach can make the queue pair.
  bool reattach_makes_queue_pairs() const { return reattach_makes_queue_pairs_; }
  // True when the broker serves the network namespace of this process, and this lane, which carries messages,
  // is to give it sockets.
  bool gives_sockets() const { return carries_ && asks_for_sockets_; }
  // Gives fresh sockets for an operation that is sent afterwards, or with 0 those of the network namespace
  // before Hello (provider/sockets_record.h). Statuses of Send().
  Status GiveSockets(std::uint64_t op_id, std::span<const int> sockets);

  // True when the broker has a provider whose client half makes the connections, and this lane carries
  // messages.
  bool takes_halves_messages() const { return carries_ && takes_halves_messages_; }
  // Receives those messages under a lock of the lane. Set before any other thread uses the lane.
  void SetHalves(std::function<void(const provider::HalvesMessage&)> halves) { halves_ = std::move(halves); }
  // Sends one, and waits for room. Statuses of Send().
  Status SendHalves(provider::TransportKind transport, std::span<const std::byte> message);

  // Call it before any other thread uses the lane: from now on one thread at a time calls Receive(), and
  // Drain() does nothing.
  void CarryMessages() { carries_ = true; }
  // Sends what was put off before it waits for the next message, and handles other datagrams meanwhile. The
  // bytes are valid until the next call. Errors as Drain().
  Result<std::span<const std::byte>> Receive();
  // Sends a datagram of messages, behind those that were put off, and waits for room. When the broker
  // accepts it, all of them leave as one datagram. One call at a time. CONNECTION_DISCONNECTED: the lane has
  // ended.
  Status Send(std::span<const std::byte> datagram);
  // The same without waiting. DEVICE_BUSY: there is no room, and this datagram was not sent.
  Status TrySend(std::span<const std::byte> datagram);
  // Puts a datagram of one message off: it leaves with the next Send(), or when Receive() is called again.
  // Returns false when too many wait already. Only while no thread is in Receive().
  bool PutOff(std::span<const std::byte> datagram);
  // Ends every waiting call.
  void Shutdown();

  // Receives, checks and acknowledges all waiting datagrams. Never blocks. Any status but SUCCESS ends the
  // session: CONNECTION_DISCONNECTED: closed by the broker; REMOTE_ERROR, ACCESS_VIOLATION: an invalid
  // datagram.
  Status Drain();
  // Takes the hand-over with that id. Datagrams precede the completion that names them, so a hand-over that
  // is missing after Drain() will not arrive.
  std::optional<provider::HandOff> Take(std::uint64_t id);
  const std::shared_ptr<MappedCounters>& counters() const { return counters_; }

 private:
  Status Handle(std::span<const std::byte> datagram, FdMessage message);
  Status SendAll(std::span<const std::byte> datagram, std::span<const int> descriptors);
  Status Acknowledge(std::uint64_t id);
  bool NothingToSend(bool* only_acknowledgements);
  Status SendPutOff();
  Status SendQueue();
  void Enqueue(std::span<const std::byte> datagram);
  // Returns SUCCESS when the datagram was sent. `number`: 0 while it is not in the queue, or its place there.
  Status SendBehindQueue(std::span<const std::byte> datagram, bool queue, std::uint64_t* number);
  void WaitForRoom(const Status& busy, int* refused);
  Result<std::span<const std::byte>> ReceiveMessages();

  std::mutex mutex_;
  UniqueFd socket_;
  bool takes_messages_ = false;
  bool takes_many_messages_ = false;
  bool reattach_makes_queue_pairs_ = false;
  bool asks_for_sockets_ = false;
  bool takes_halves_messages_ = false;
  std::function<void(const provider::HalvesMessage&)> halves_;
  bool carries_ = false;
  std::unique_ptr<std::byte[]> buffer_;         // Of Receive(). Mostly untouched memory.
  std::span<const std::byte> unread_messages_;  // The messages in buffer_ that Receive() has not returned.
  bool message_follows_ = false;                // The last datagram was a hand-over. Of Receive().
  std::shared_ptr<MappedCounters> counters_ = std::make_shared<MappedCounters>();
  std::map<std::uint64_t, provider::HandOff> waiting_;

  // Locked last, and never while a thread waits.
  std::mutex queue_mutex_;
  struct Datagram {
    std::vector<std::byte> bytes;
    bool takes_messages = false;  // Further messages may be added.
    bool acknowledges = false;
  };
  std::deque<Datagram> queue_;               // What was put off, or what a Send() waits for.
  std::uint64_t queued_ = 0, dequeued_ = 0;  // All that were ever in the queue.
  std::size_t messages_queued_ = 0;          // Put into it since it was empty.
};

}  // namespace nd::client
