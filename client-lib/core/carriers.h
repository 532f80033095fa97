// SPDX-License-Identifier: Apache-2.0
// The carriers of sessions: the fd lane is built in, others are registered (nd/carrier.h).
#pragma once

#include <memory>
#include <string_view>

#include "client-lib/core/broker_lane.h"
#include "nd/carrier.h"

namespace nd::client {

// Makes the carrier on the lane, which must outlive it; from now on only the carrier reads the lane. `sink`
// must outlive Close().
std::unique_ptr<Carrier> OpenLaneCarrier(BrokerLane& lane, Carrier::Sink* sink);

// Null when no carrier of that name is registered.
OpenCarrier FindCarrier(std::string_view name);

}  // namespace nd::client
