// SPDX-License-Identifier: Apache-2.0
// Negotiation of RDMA Read limits (docs/status.md, "Read limits"). Pure; nothing is ever too large, it is
// lowered. In every pair `inbound` counts the other side's reads towards the side that the pair describes.
#pragma once

#include <optional>

#include "nd/types.h"

namespace nd::core {

// What the active side puts on the wire.
ReadLimits CapOffer(const ReadLimits& asked, const ReadLimits& caps);

// What the passive side sees before it accepts: its inbound is the peer's outbound.
ReadLimits PassiveView(const ReadLimits& peer_offer, const ReadLimits& caps);

// What the passive side's Accept makes of it; final there, and what travels back.
ReadLimits AcceptLimits(const ReadLimits& asked, const ReadLimits& peer_offer, const ReadLimits& caps);

// What the active side ends with, given its offer and the passive side's answer. Empty: the peer wants more
// reads than this adapter can serve, so the connection must be refused (a peer that broke the rules).
std::optional<ReadLimits> ActiveFinal(const ReadLimits& offer, const ReadLimits& peer,
                                      const ReadLimits& caps);

}  // namespace nd::core
