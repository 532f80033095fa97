// SPDX-License-Identifier: Apache-2.0
// The transports of soft: the numbers of their hand-overs, and their names for people.
#pragma once

#include <string_view>

#include "provider/hand_off.h"

namespace nd::provider::soft {

// 0: the sealed memfd of the segment, 1: this side's end of the doorbell socket, which is of messages.
inline constexpr provider::TransportKind kShared{1};
inline constexpr std::string_view kSharedName = "local";
// 0: the TCP socket.
inline constexpr provider::TransportKind kIwarp{2};
inline constexpr std::string_view kIwarpName = "iwarp";

}  // namespace nd::provider::soft
