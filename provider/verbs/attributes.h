// SPDX-License-Identifier: Apache-2.0
// The queue pair attributes that the broker's half gives the client's half before a connection goes up.
//
// One fixed struct in host byte order: both ends are on one host, but they may be built against different
// versions of libibverbs, so ibv_qp_attr itself never crosses. The receiver copies, checks, then uses.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "nd/status.h"

namespace nd::provider::verbs {

// One ibv_modify_qp call.
struct QpTransition {
  ibv_qp_attr attr{};
  int mask = 0;
};

// INIT, RTR and RTS, in this order.
using QpTransitions = std::array<QpTransition, 3>;

std::vector<std::uint8_t> EncodeTransitions(const QpTransitions& transitions);

// INVALID_PARAMETER when it is not exactly what EncodeTransitions makes: wrong size, version, order of
// states, or a mask outside what those three transitions may set.
Result<QpTransitions> DecodeTransitions(std::span<const std::uint8_t> bytes);

}  // namespace nd::provider::verbs
