// SPDX-License-Identifier: Apache-2.0
// What operations are called, for people and for traces: the place in core::Op is the index.
#pragma once

#include <array>
#include <variant>

#include "daemon/core/event.h"

namespace nd::core {

inline constexpr std::array<const char*, std::variant_size_v<Op>> kOpNames = {"ListAdapters",
                                                                              "OpenAdapter",
                                                                              "ResolveAddress",
                                                                              "CheckAddress",
                                                                              "CreateQueuePair",
                                                                              "CreateConnector",
                                                                              "CreateListener",
                                                                              "CreateSharedEndpoint",
                                                                              "Close",
                                                                              "Bind",
                                                                              "Connect",
                                                                              "CompleteConnect",
                                                                              "Accept",
                                                                              "Reject",
                                                                              "GetReadLimits",
                                                                              "GetPrivateData",
                                                                              "GetLocalAddress",
                                                                              "GetPeerAddress",
                                                                              "NotifyDisconnect",
                                                                              "Disconnect",
                                                                              "Cancel",
                                                                              "Listen",
                                                                              "ControlConnectEvents",
                                                                              "GetConnectionRequest",
                                                                              "TransportReport",
                                                                              "Reattach"};
// A name that is missing would leave null behind.
static_assert(kOpNames.back() != nullptr);

}  // namespace nd::core
