// SPDX-License-Identifier: Apache-2.0
// Negotiation of RDMA Read limits (docs/status.md, "Read limits"). Pure. A limit that is too large is
// lowered. In every pair `inbound` counts the reads of the other side to the described side.
#pragma once

#include <optional>

#include "nd/types.h"

namespace nd::core {

inline ReadLimits CapsOf(const AdapterInfo& info) {
  return {info.max_inbound_read_limit, info.max_outbound_read_limit};
}

// The limits that the active side sends.
ReadLimits CapOffer(const ReadLimits& asked, const ReadLimits& caps);

// The limits that the passive side sees before Accept: its inbound is the outbound limit of the peer.
ReadLimits PassiveView(const ReadLimits& peer_offer, const ReadLimits& caps);

// The final limits of the passive side after Accept, which the reply carries.
ReadLimits AcceptLimits(const ReadLimits& asked, const ReadLimits& peer_offer, const ReadLimits& caps);

// The final limits of the active side, from its offer and the reply. No value: the peer, against the rules,
// wants more reads than this adapter can serve, and the connection must be refused.
std::optional<ReadLimits> ActiveFinal(const ReadLimits& offer, const ReadLimits& peer,
                                      const ReadLimits& caps);

}  // namespace nd::core
