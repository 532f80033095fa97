// SPDX-License-Identifier: Apache-2.0
// The first message of a session, over gRPC or the lane, and the facts about its sender from /proc.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/core/event.h"
#include "daemon/service/peer.h"
#include "session/operations.h"

namespace nd::service {

struct HelloFacts {
  core::OpId op_id = 0;
  std::string token;
  core::Identity identity;
  std::uint64_t socket_cookie = 0;
  std::string broker_version;
};

// Fails with the statuses of session::TakeHello(). Refusals are logged. Any thread except the loop, because
// it reads files.
Result<HelloFacts> HelloFrom(session::ClientMessage message, const Peer& peer, const std::string& version);

}  // namespace nd::service
