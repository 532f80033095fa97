// SPDX-License-Identifier: Apache-2.0
// One client as the service sees it: its fd lane, its stream (which may be the lane), and what is on the way
// to it, in order.
//
// A message never overtakes a hand-over queued before it: the completion that names a transport arrives after
// the transport. Loop thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "daemon/core/event.h"
#include "daemon/service/convert.h"
#include "daemon/service/counters_pages.h"
#include "daemon/service/lane.h"
#include "provider/hand_off.h"

namespace nd::service {

// The stream's end that the loop holds on to.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  // False: the client is too far behind; the session must end.
  virtual bool Send(pb::ServerMessage message) = 0;
  // After what was sent: ends the stream.
  virtual void End(const Status& why) = 0;
  // At once.
  virtual void Cut() = 0;
  // The loop has taken one operation; another may be read.
  virtual void Taken() = 0;
};

class Session {
 public:
  Session(core::SessionId id, std::unique_ptr<Lane> lane, std::array<std::byte, 16> token)
      : id_(id), lane_(std::move(lane)), token_(token) {}

  core::SessionId id() const { return id_; }
  const Peer& peer() const { return lane_->peer(); }
  // In constant time.
  bool TokenIs(std::string_view token) const;

  // Each returns why the session must end, or SUCCESS.
  Status Send(pb::ServerMessage message);
  Status Send(provider::HandOff hand_off, const std::function<void(std::vector<UniqueFd>)>& close);
  // Gives the client the counters page of `slot` unless it has it.
  Status ProvidePage(std::uint32_t slot);
  Status Flush();
  Lane& lane() { return *lane_; }

  std::shared_ptr<SessionSink> stream;  // Null until Hello.
  bool on_lane = false;                 // Its messages come by the lane, from Hello on.
  std::optional<EventLoop::TimerId> hello_timer;
  core::OpId hello_op = 0;  // While the core decides whether to take the session.
  // Operations that the core has not completed: their place in core::Op, and when they came.
  struct PendingOperation {
    std::size_t kind = 0;
    Time since;
  };
  std::unordered_map<core::OpId, PendingOperation> pending;
  CountersPages pages;

 private:
  // One datagram of the lane: a record of whichever kind, its descriptors, its id.
  struct Datagram {
    std::vector<std::byte> record;
    std::vector<UniqueFd> fds;
    std::uint64_t id = 0;
    std::function<void(std::vector<UniqueFd>)> close;
  };
  using Item = std::variant<pb::ServerMessage, Datagram>;
  Status TrySend(Datagram& datagram);
  Status Send(Datagram datagram);

  const core::SessionId id_;
  std::unique_ptr<Lane> lane_;
  const std::array<std::byte, 16> token_;
  std::deque<Item> waiting_;
  std::uint64_t last_page_id_ = std::uint64_t{1} << 63;  // Apart from the core's hand-over ids.
};

}  // namespace nd::service
