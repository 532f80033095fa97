// SPDX-License-Identifier: Apache-2.0
// A file of its own, so that the table of the specification can be tested as arithmetic.
#include "daemon/core/read_limits.h"

#include <algorithm>

namespace nd::core {

ReadLimits CapOffer(const ReadLimits& asked, const ReadLimits& caps) {
  return {std::min(asked.inbound, caps.inbound), std::min(asked.outbound, caps.outbound)};
}

ReadLimits PassiveView(const ReadLimits& peer_offer, const ReadLimits& caps) {
  return {std::min(peer_offer.outbound, caps.inbound), std::min(peer_offer.inbound, caps.outbound)};
}

ReadLimits AcceptLimits(const ReadLimits& asked, const ReadLimits& peer_offer, const ReadLimits& caps) {
  const ReadLimits view = PassiveView(peer_offer, caps);
  return {std::min(asked.inbound, view.inbound), std::min(asked.outbound, view.outbound)};
}

std::optional<ReadLimits> ActiveFinal(const ReadLimits& offer, const ReadLimits& peer,
                                      const ReadLimits& caps) {
  // An honest peer stays within our offer; a higher limit is granted if the adapter supports it.
  if (peer.outbound > offer.inbound && peer.outbound > caps.inbound) return std::nullopt;
  return ReadLimits{peer.outbound, std::min(offer.outbound, peer.inbound)};
}

}  // namespace nd::core
