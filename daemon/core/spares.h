// SPDX-License-Identifier: Apache-2.0
// Objects that a client may make without waiting for the answer: the broker has charged them to the user and
// kept room for them, so that making one of them cannot fail. An offer that the client has not taken can be
// withdrawn at any moment, so that offers never keep another operation from the last free place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/core/ids.h"
#include "daemon/core/quota.h"
#include "provider/regions.h"

namespace nd::core {

enum class SpareKind : std::uint8_t { kQueuePair, kConnector };
inline constexpr std::array kSpareKinds{SpareKind::kQueuePair, SpareKind::kConnector};

// The memory in which clients find their offers. Each call takes effect before it returns.
class SpareBoard {
 public:
  virtual ~SpareBoard() = default;
  // Offers spare `index`, which is not offered. `value` is not 0. Returns false when the client has no such
  // memory.
  virtual bool Offer(SessionId session, SpareKind kind, std::uint32_t index, std::uint32_t value) = 0;
  // Returns false when the client has taken the offer; its operation arrives later, or never.
  virtual bool Withdraw(SessionId session, SpareKind kind, std::uint32_t index) = 0;
};

// Offered, or taken by an operation that has not arrived, while it has a charge.
struct Spare {
  Quota::Token charge;
  std::uint32_t counter_slot = 0;  // Of a queue pair.
};
using SparesOfKind = std::array<Spare, provider::kSpares>;

}  // namespace nd::core
