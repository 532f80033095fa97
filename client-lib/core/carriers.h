// SPDX-License-Identifier: Apache-2.0
// The carriers of sessions: the fd lane is built in, others are registered (nd/carrier.h).
#pragma once

#include <memory>
#include <string_view>

#include "base/clock.h"
#include "client-lib/core/broker_lane.h"
#include "nd/carrier.h"

namespace nd::client {

// Makes the carrier on the lane, which must outlive it; from now on only the carrier reads the lane. `sink`
// must outlive Close(). A message that no caller awaits may be delivered up to twice `rest` late.
inline constexpr Duration kLaneRest = std::chrono::milliseconds(1);
std::unique_ptr<Carrier> OpenLaneCarrier(BrokerLane& lane, Carrier::Sink* sink, Duration rest = kLaneRest);

// Null when no carrier of that name is registered.
OpenCarrier FindCarrier(std::string_view name);

}  // namespace nd::client
