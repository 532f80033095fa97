// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/away_listeners.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nd::service {
namespace {

bool Serves(const std::string& adapter, const Address& local, const provider::InboundRequest& request) {
  return adapter == request.adapter && local.port() == request.local.port() &&
         local.family() == request.local.family() && (local.unspecified() || local.same_ip(request.local));
}

}  // namespace

AwayListeners::AwayListeners(const std::vector<core::Lease>& leases) {
  for (const core::Lease& lease : leases) {
    if (lease.kind == core::PortKind::kListener) listeners_.push_back({lease.adapter, lease.local});
  }
}

bool AwayListeners::Hold(const provider::InboundRequest& request) {
  if (requests_.size() >= kMostRequests) return false;
  const bool away = std::ranges::any_of(
      listeners_, [&](const Listener& each) { return Serves(each.adapter, each.local, request); });
  if (away) requests_.push_back(request);
  return away;
}

bool AwayListeners::Forget(provider::CmId id) {
  return std::erase_if(requests_, [&](const auto& request) { return request.id == id; }) > 0;
}

std::vector<provider::InboundRequest> AwayListeners::Back(const std::string& adapter, const Address& local) {
  if (std::erase(listeners_, Listener{adapter, local}) == 0) return {};
  const auto others = std::stable_partition(requests_.begin(), requests_.end(), [&](const auto& request) {
    return !Serves(adapter, local, request);
  });
  std::vector<provider::InboundRequest> out(std::make_move_iterator(others),
                                            std::make_move_iterator(requests_.end()));
  requests_.erase(others, requests_.end());
  return out;
}

std::vector<provider::InboundRequest> AwayListeners::GiveUp() {
  listeners_.clear();
  return std::exchange(requests_, {});
}

}  // namespace nd::service
