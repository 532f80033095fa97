// SPDX-License-Identifier: Apache-2.0
// The messages of the broker as the library uses them.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "nd/status.h"
#include "provider/hand_off.h"
#include "session/events.h"

namespace nd::client {

// The answer to an operation, with the transport from the fd lane.
struct Reply : session::Reply {
  Reply() = default;
  explicit Reply(session::Completion completion)
      : session::Reply(std::move(completion.reply)),
        op_id(completion.op_id),
        status(std::move(completion.status)) {}

  session::OpId op_id = 0;
  Status status;
  std::optional<provider::HandOff> transport;
};

// The status of pending operations after the end of a session: ACCESS_DENIED and INSUFFICIENT_RESOURCES stay,
// every other status becomes DEVICE_REMOVED.
Status SessionEnded(StatusCode code, const std::string& why);

}  // namespace nd::client
