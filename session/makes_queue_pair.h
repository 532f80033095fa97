// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "session/operations.h"

namespace nd::session {

// True when the broker makes a queue pair for the operation, which then has a slot of the counters.
inline bool MakesQueuePair(const Operation& operation) {
  const auto* const reattach = std::get_if<ReattachOp>(&operation);
  return std::holds_alternative<CreateQueuePairOp>(operation) ||
         (reattach != nullptr && !reattach->queue_pair);
}

}  // namespace nd::session
