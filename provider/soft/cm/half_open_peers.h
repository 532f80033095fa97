// SPDX-License-Identifier: Apache-2.0
// Peers that have connected and have not sent a whole request: how many there are, and which of them goes
// when there are too many. A flood from one network evicts its own peers first.
//
// One thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "nd/types.h"
#include "provider/cm.h"

namespace nd::provider::soft {

class HalfOpenPeers {
 public:
  // Ids grow, so the peer with the smallest id has waited for the longest time.
  void Add(CmId id, const Address& peer) {
    const std::string network = NetworkOf(peer);
    network_of_[id] = network;
    by_network_[network].insert(id);
  }
  // Returns false when the peer was not in the table.
  bool Remove(CmId id) {
    const auto found = network_of_.extract(id);
    if (!found) return false;
    const auto peers = by_network_.find(found.mapped());
    peers->second.erase(id);
    if (peers->second.empty()) by_network_.erase(peers);
    return true;
  }

  bool Has(CmId id) const { return network_of_.contains(id); }
  std::size_t size() const { return network_of_.size(); }
  // The oldest peer of the network that has most of them. Absent: there is none.
  std::optional<CmId> Victim() const {
    const std::set<CmId>* most = nullptr;
    for (const auto& [network, peers] : by_network_) {
      if (most == nullptr || peers.size() > most->size()) most = &peers;
    }
    if (most == nullptr) return std::nullopt;
    return *most->begin();
  }

 private:
  // A /24 or a /64.
  static std::string NetworkOf(const Address& peer) {
    return std::string(peer.ip().substr(0, peer.family() == Address::Family::kIpv4 ? 3 : 8));
  }

  std::map<CmId, std::string> network_of_;
  std::map<std::string, std::set<CmId>> by_network_;
};

}  // namespace nd::provider::soft
