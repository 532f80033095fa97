// SPDX-License-Identifier: Apache-2.0
// The first message of a session, over gRPC or on the lane, and what /proc tells about who said it.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/core/event.h"
#include "daemon/service/convert.h"
#include "daemon/service/peer.h"

namespace nd::service {

struct HelloFacts {
  core::OpId op_id = 0;
  std::string token;
  core::Identity identity;
  std::uint64_t socket_cookie = 0;
  std::string broker_version;
};

// Statuses of DecodeHello(); INVALID_PARAMETER: op_id 0. Refusals are logged. Any thread; reads files, so
// that the loop must not wait for it.
Result<HelloFacts> HelloFrom(const pb::ClientMessage& message, const Peer& peer, const std::string& version);

}  // namespace nd::service
