// SPDX-License-Identifier: Apache-2.0
// The memory that kept messages use, for limits on the memory that a client can make the broker hold.
#pragma once

#include <cstddef>

#include "session/events.h"

namespace nd::session {

// The heap bytes of the message, without the message itself.
std::size_t HeapBytes(const Completion& completion);
std::size_t HeapBytes(const ServerMessage& message);

}  // namespace nd::session
