// SPDX-License-Identifier: Apache-2.0
// The queue pair attributes that the daemon half sends to the client half before a connection is established.
//
// They travel as one fixed struct in host byte order. Both halves run on one host but may be built against
// different versions of libibverbs, so ibv_qp_attr itself is not sent. The receiver copies the struct, checks
// the copy and uses the copy.
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

// Returns INVALID_PARAMETER when `bytes` is not an output of EncodeTransitions: the size, the version or the
// order of states is wrong, or a mask sets an attribute that its transition may not set.
Result<QpTransitions> DecodeTransitions(std::span<const std::uint8_t> bytes);

}  // namespace nd::provider::verbs
