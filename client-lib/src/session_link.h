// SPDX-License-Identifier: Apache-2.0
// One connection of a session to one life of the broker; private to session*.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "client-lib/src/lane.h"
#include "client-lib/src/session.h"
#include "client-lib/src/session_stream.h"

namespace nd::client {

struct Session::Link final : SessionStream::Sink {
  struct Pending {
    OpKind kind = OpKind::kHello;
    Done done;
  };

  Link(Session* owner, UniqueFd socket) : session(owner), lane(std::move(socket)) {}

  void OnMessage(Incoming message) override { session->OnMessage(*this, std::move(message)); }
  void OnClosed(const Status& status) override { session->Break(*this, status); }

  Session* const session;  // Outlives the stream: the keeper closes it.
  Lane lane;
  std::unique_ptr<SessionStream> stream;
  // Under the session's mutex:
  std::map<std::uint64_t, Pending> pending;  // In order of submission.
  bool over = false;
  Status why;
};

}  // namespace nd::client
