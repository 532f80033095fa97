// SPDX-License-Identifier: Apache-2.0
// The transport of verbs: the number of its hand-overs, and its name for people.
#pragma once

#include <string_view>

#include "provider/hand_off.h"

namespace nd::provider::verbs {

// None, or 0: the event channel of the connection's rdma_cm_id. The client reads nothing from it. While the
// client holds it, the connection survives the end of the broker.
inline constexpr TransportKind kTransport{3};
inline constexpr std::string_view kTransportName = "verbs";

}  // namespace nd::provider::verbs
