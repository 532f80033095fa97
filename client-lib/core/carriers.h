// SPDX-License-Identifier: Apache-2.0
// The carriers of sessions: the fd lane is built in, others are registered (nd/carrier.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "client-lib/core/broker_lane.h"
#include "nd/carrier.h"

namespace nd::client {

// The carrier on the lane can send in three more ways. Any thread; in the order of the calls.
class LaneMessages : public Carrier {
 public:
  // As Send(), several messages of at most kMaxClientMessage bytes together, which leave in one datagram when
  // the broker accepts that.
  virtual bool SendTogether(std::span<const std::vector<std::byte>> messages) = 0;
  // As Send(), and nobody waits for an effect of the message: it leaves with the next one, at most eight
  // times `rest` later.
  virtual bool SendLater(std::span<const std::byte> message) = 0;
  // Sends without waiting. Returns false when that is not possible now; the message was not sent.
  virtual bool TrySend(std::span<const std::byte> message) = 0;
};

// Makes the carrier on the lane, which must outlive it; from now on only the carrier reads the lane. `sink`
// must outlive Close(). A message that no caller awaits may be delivered up to eight times `rest` late.
inline constexpr Duration kLaneRest = std::chrono::milliseconds(1);
std::unique_ptr<LaneMessages> OpenLaneCarrier(BrokerLane& lane, Carrier::Sink* sink,
                                              Duration rest = kLaneRest);

// Null when no carrier of that name is registered.
OpenCarrier FindCarrier(std::string_view name);

}  // namespace nd::client
