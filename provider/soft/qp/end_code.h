// SPDX-License-Identifier: Apache-2.0
// The reason why one side ends a connection, and its effect on the other side's requests.
#pragma once

#include <cstdint>

#include "nd/status.h"

namespace nd::provider::soft {

// The numbers are those in a shared segment (docs/wire.md). Over iWARP a Terminate message has the same
// reasons (iwarp/faults.h).
enum class EndCode : std::uint32_t {
  kNone = 0,
  kRemoteAccess = 1,  // The peer named memory that it may not touch.
  kNoReceive = 2,     // The peer's Send found no receive within the time.
  kTooLong = 3,       // The peer's Send was longer than the receive.
  kProtocol = 4,      // The peer broke the protocol.
  kLocal = 5,  // A request of this side failed (its own memory was not registered, ...), or it dropped the
               // connection.
  kReceiveFailed = 6,  // The memory of the receive for the peer's Send cannot take it.
};

// The status of the request that made the peer end the connection.
constexpr StatusCode StatusOfFailedRequest(EndCode code) {
  if (code == EndCode::kRemoteAccess) return StatusCode::kAccessViolation;
  if (code == EndCode::kNoReceive) return StatusCode::kIoTimeout;
  return StatusCode::kRemoteError;
}

}  // namespace nd::provider::soft
