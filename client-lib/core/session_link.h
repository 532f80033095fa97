// SPDX-License-Identifier: Apache-2.0
// One connection of a session to one life of the broker; private to session*.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "client-lib/core/broker_lane.h"
#include "client-lib/core/broker_session.h"
#include "client-lib/core/carriers.h"

namespace nd::client {

struct BrokerSession::Link final : Carrier::Sink {
  struct Pending {
    bool makes_queue_pair = false;  // Its answer may follow a counters page.
    bool caller_waits = false;      // In AwaitReply().
    bool unhurried = false;
    Done done;
  };

  Link(BrokerSession* owner, UniqueFd socket) : session(owner), lane(std::move(socket)) {}

  bool OnMessage(std::span<const std::byte> bytes) override { return session->OnMessage(*this, bytes); }
  void OnClosed(const Status& status) override {
    session->Break(*this, SessionEnded(status.code(), status.message()));
  }
  bool AwaitsNothing() override { return session->AwaitsNothing(*this); }

  BrokerSession* const session;  // Outlives the carrier: the keeper closes it.
  BrokerLane lane;
  std::unique_ptr<Carrier> carrier;
  LaneMessages* lane_messages = nullptr;  // The carrier; null: it has no other ways to send.
  // Under the session's mutex:
  std::map<session::OpId, Pending> pending;  // In order of submission.
  std::size_t hurried = 0;                   // Those of them that are not `unhurried`.
  bool answered_caller = false;  // The last hurried message was an answer that a caller waited for.
  bool over = false;
  Status why;
};

}  // namespace nd::client
