// SPDX-License-Identifier: Apache-2.0
// Distinct types for distinct numbers.
#pragma once

#include <cstdint>

#include "session/handle.h"

namespace nd::core {

enum class SessionId : std::uint64_t {};
using AdapterNo = std::uint32_t;
using session::Handle;
using session::OpId;

}  // namespace nd::core
