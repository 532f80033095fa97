// SPDX-License-Identifier: Apache-2.0
// One client of the service: its fd lane, its stream (which may be the lane), and the queue of messages and
// hand-overs for it.
//
// A message never overtakes a hand-over queued before it: the completion that names a transport arrives after
// the transport. Loop thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "daemon/core/event.h"
#include "daemon/service/client_lane.h"
#include "daemon/service/counters_pages.h"
#include "provider/hand_off.h"
#include "session/events.h"

namespace nd::service {

// The interface of a stream for the loop.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  // Returns false when the client is too far behind; the session must then end.
  virtual bool Send(const session::ServerMessage& message) = 0;
  // The same for the most frequent message.
  virtual bool Send(const session::Completion& completion) = 0;
  // Ends the stream after the messages that were sent.
  virtual void End(const Status& why) = 0;
  // Ends the stream at once.
  virtual void Cut() = 0;
  // The loop has taken one operation; another may be read.
  virtual void Taken() = 0;
};

class ClientSession {
 public:
  // `in_flight` outlives the session.
  ClientSession(core::SessionId id, std::unique_ptr<ClientLane> lane, std::array<std::byte, 16> token,
                InFlight& in_flight)
      : id_(id), lane_(std::move(lane)), token_(token), in_flight_(in_flight) {}

  core::SessionId id() const { return id_; }
  const Peer& peer() const { return lane_->peer(); }
  // Compares in constant time.
  bool TokenIs(std::string_view token) const;

  // Each function returns SUCCESS, or the reason why the session must end.
  Status Send(session::ServerMessage message);
  Status Send(const session::Completion& completion);
  Status Send(provider::HandOff hand_off, const std::function<void(std::vector<UniqueFd>)>& close);
  // Sends the client the counters page of `slot`, made by pages.Make().
  Status SendPage(std::uint32_t slot, UniqueFd page);
  Status Flush();
  ClientLane& lane() { return *lane_; }
  // The bytes of memory behind hand-overs that the client has not acknowledged.
  std::size_t waiting_bytes() const { return waiting_bytes_; }

  std::shared_ptr<SessionSink> stream;  // Null until Hello.
  bool on_lane = false;                 // From Hello on its messages come by the lane.
  bool takes_together = false;          // A hand-over and its completion in one datagram.
  std::optional<EventLoop::TimerId> hello_timer;
  core::OpId hello_op = 0;  // Set while the core decides about the session.
  // Operations that the core has not completed: their index in session::Operation and their time of arrival.
  struct PendingOperation {
    std::size_t kind = 0;
    Time since;
  };
  class PendingOperations {
   public:
    std::size_t size() const { return operations_.size(); }
    bool contains(core::OpId id) const { return operations_.contains(id); }
    void Add(core::OpId id, const PendingOperation& operation);
    // No value: it is not pending.
    std::optional<PendingOperation> Take(core::OpId id);

   private:
    using Table = std::unordered_map<core::OpId, PendingOperation>;
    Table operations_;
    Table::node_type spare_;  // Of the operation that was taken last: its memory is used again.
  };
  PendingOperations pending;
  CountersPages pages;
  // Sockets that the client has given and that are not used yet: those of its network namespace, and one for
  // each Connect by its id.
  std::vector<UniqueFd> network_sockets;
  std::map<core::OpId, UniqueFd> given_sockets;
  std::uint64_t network = 0;  // The served network that it belongs to; 0: none.

 private:
  // One datagram of the lane: a record of any kind, its descriptors, its id.
  struct Datagram {
    std::vector<std::byte> record;
    std::vector<UniqueFd> fds;
    std::uint64_t id = 0;
    std::function<void(std::vector<UniqueFd>)> close;
    InFlight::Charge charge;
  };
  using Item = std::variant<session::ServerMessage, Datagram>;
  static std::size_t BytesOf(const Item& item);
  Status Wait(Item item);
  Status TrySend(Datagram& datagram, const session::Completion* completion = nullptr);
  // Sends the hand-over that waits for its completion, without it or with it.
  Status SendHeld(const session::Completion* completion);
  Status Send(Datagram datagram);

  const core::SessionId id_;
  std::unique_ptr<ClientLane> lane_;
  const std::array<std::byte, 16> token_;
  InFlight& in_flight_;
  // A hand-over whose completion is the next message, mostly; nothing waits then.
  std::optional<Datagram> held_;
  std::deque<Item> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t last_page_id_ = std::uint64_t{1} << 63;  // Disjoint from the hand-over ids of the core.
};

}  // namespace nd::service
