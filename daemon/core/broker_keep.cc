// SPDX-License-Identifier: Apache-2.0
// Host ports that nobody uses and that somebody is to find free later: those of leases and of reservations.
//
// Where ND ports are ports of the host, the tables alone do not keep another program away. What keeps one is
// a reservation of the provider, with an endpoint of its own. Whoever takes the port has the provider reserve
// it for him first and only then is this one let go.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

EndpointId Broker::Impl::Keep(const PortKey& key, std::uint64_t request) {
  const provider::AdapterDescription& adapter = adapters_[key.adapter].description;
  if (!adapter.keep_ports) return {};
  const EndpointId endpoint{next_endpoint_++};
  keeping_.insert({static_cast<std::uint64_t>(endpoint), {key, request}});
  Emit(CmReserve{endpoint, adapter.info.name, key.local()});
  return endpoint;
}

void Broker::Impl::LetGo(EndpointId endpoint) {
  if (endpoint == EndpointId{}) return;
  Emit(CmRelease{endpoint});
  const auto found = keeping_.find(static_cast<std::uint64_t>(endpoint));
  if (found == keeping_.end()) return;
  const std::uint64_t request = found->second.request;
  keeping_.erase(found);
  if (request != 0) {
    AnswerReserve(request,
                  {StatusCode::kCanceled, "The reservation was released before the host gave the port."});
  }
}

void Broker::Impl::KeepLeases(AdapterNo adapter) {
  const provider::AdapterDescription& description = adapters_[adapter].description;
  if (!description.keep_ports || !description.problem.ok()) return;
  std::vector<PortKey> unheld;
  for (const auto& [key, entry] : ports_.entries()) {
    if (key.adapter != adapter || entry.kind != PortKind::kLease || entry.reserved) continue;
    if (CheckLocalAddress(description.info, key.local(), /*allow_unspecified=*/true).ok())
      unheld.push_back(key);
  }
  for (const PortKey& key : unheld) {
    PortEntry* const entry = ports_.Find(key);
    entry->endpoint = Keep(key, 0);
    entry->reserved = true;
  }
}

bool Broker::Impl::Kept(const CmReserved& event) {
  const auto found = keeping_.find(static_cast<std::uint64_t>(event.endpoint));
  if (found == keeping_.end()) return false;
  const Keeping kept = found->second;
  keeping_.erase(found);
  if (kept.request != 0) {
    if (!event.status.ok()) ports_.Unreserve(kept.key);
    AnswerReserve(kept.request, event.status);
    return true;
  }
  PortEntry* const lease = ports_.Find(kept.key);
  ND_CORE_CHECK(lease != nullptr && lease->kind == PortKind::kLease && lease->endpoint == event.endpoint);
  lease->reserved = event.status.ok();
  const Status before = std::exchange(lease->unheld, event.status);
  // Tried again whenever the adapter changes, and said once.
  if (!event.status.ok() && before.message() != event.status.message()) {
    Note(Notice::Level::kWarning, "lease.unheld", kept.key.local().ToString(),
         "Kept for process " + std::to_string(lease->owner.pid) + " of uid " +
             std::to_string(lease->owner.uid) +
             ", but not from other programs of this host: " + event.status.message());
  }
  return true;
}

}  // namespace nd::core
