// SPDX-License-Identifier: Apache-2.0
// Leases: ports that are kept for their holders after the end of the previous broker. And the host ports
// without a user that must stay free: those of leases and of reservations.
//
// Of a lease only the port is kept. Operations under way ended with the previous broker, and no quota is
// charged until the holder returns.
//
// Where ND ports are ports of the host, the tables do not keep other programs away. A reservation of the
// provider does, with an endpoint of its own. When the port is taken, the provider first reserves it for the
// new endpoint, and only then is this one released.
#include <string>
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/check.h"
#include "daemon/core/ports.h"

namespace nd::core {

bool Ports::HoldLeases(const std::vector<Lease>& leases) {
  bool any = false;
  for (const Lease& lease : leases) {
    const std::optional<AdapterNo> adapter = AdapterNamed(adapters_, lease.adapter);
    if (!adapter || !lease.local.well_formed() || lease.local.port() == 0) continue;
    const PortKey key = PortKey::Of(*adapter, lease.local);
    if (!space_.Check(key, Newcomer::kExclusive).ok()) continue;
    PortEntry entry;
    entry.kind = PortKind::kLease;
    entry.owner = {SessionId{}, lease.holder.uid, lease.holder.pid, lease.holder.born};
    space_.Add(key, std::move(entry));
    any = true;
  }
  return any;
}

void Ports::DropLease(const PortKey& key, std::vector<EndpointId>* replaced) {
  const std::optional<PortEntry> lease = space_.Release(key);
  const AdapterState& adapter = adapters_[key.adapter];
  if (adapter.present) output_.Emit(LeaseFreed{adapter.description.info.name, key.local()});
  if (!lease->reserved) return;
  if (replaced == nullptr) {
    LetGo(lease->endpoint);
  } else {
    replaced->push_back(lease->endpoint);
  }
}

void Ports::DropDeadLeases(const PortKey& key, const Process& asks) {
  if (!may_come_back_) return;
  // The process that asks lives. The question is a read of /proc, and each connection that comes back asks.
  const auto gone = [&](const Process& holder) { return !(holder == asks) && !may_come_back_(holder); };
  for (const PortKey& lease : space_.Leases(key, gone)) DropLease(lease);
}

void Ports::EndLeases() {
  std::vector<PortKey> left;
  for (const auto& [key, entry] : space_.entries()) {
    if (entry.kind == PortKind::kLease) left.push_back(key);
  }
  for (const PortKey& key : left) DropLease(key);
  if (left.empty()) return;
  output_.Note(
      Notice::Level::kInfo, "lease.ended", "",
      std::to_string(left.size()) + " ports are free again whose holders did not come back for them.");
}

void Ports::ForgetLeasesOf(AdapterNo adapter) {
  for (const auto& [key, entry] : space_.entries()) {
    if (key.adapter != adapter) continue;
    output_.Emit(LeaseFreed{adapters_[adapter].description.info.name, key.local()});
  }
}

EndpointId Ports::HoldIdle(const PortKey& key, std::uint64_t request) {
  const provider::AdapterDescription& adapter = adapters_[key.adapter].description;
  if (!adapter.keep_ports) return {};
  const EndpointId endpoint{next_endpoint_++};
  idle_asked_.insert({static_cast<std::uint64_t>(endpoint), {key, request}});
  output_.Emit(CmReserve{endpoint, adapter.info.name, key.local()});
  return endpoint;
}

void Ports::LetGo(EndpointId endpoint) {
  if (endpoint == EndpointId{}) return;
  output_.Emit(CmRelease{endpoint});
  const auto found = idle_asked_.find(static_cast<std::uint64_t>(endpoint));
  if (found == idle_asked_.end()) return;
  const std::uint64_t request = found->second.request;
  idle_asked_.erase(found);
  if (request != 0) {
    AnswerReserve(request,
                  {StatusCode::kCanceled, "The reservation was released before the host gave the port."});
  }
}

void Ports::HoldHostPorts(AdapterNo adapter) {
  const provider::AdapterDescription& description = adapters_[adapter].description;
  if (!description.keep_ports || !description.problem.ok()) return;
  std::vector<PortKey> unheld;
  for (const auto& [key, entry] : space_.entries()) {
    if (key.adapter != adapter || entry.kind != PortKind::kLease || entry.reserved) continue;
    if (CheckLocalAddress(description.info, key.local(), /*allow_unspecified=*/true).ok()) {
      unheld.push_back(key);
    }
  }
  for (const PortKey& key : unheld) {
    PortEntry* const entry = space_.Find(key);
    entry->endpoint = HoldIdle(key, 0);
    entry->reserved = true;
  }
}

void Ports::AnsweredIdle(const Idle& idle, const CmReserved& event) {
  if (idle.request != 0) {
    if (!event.status.ok()) space_.Unreserve(idle.key);
    AnswerReserve(idle.request, event.status);
    return;
  }
  PortEntry* const lease = space_.Find(idle.key);
  ND_CORE_CHECK(lease != nullptr && lease->kind == PortKind::kLease && lease->endpoint == event.endpoint);
  lease->reserved = event.status.ok();
  const Status before = std::exchange(lease->unheld, event.status);
  // The request is repeated whenever the adapter changes, and each problem is reported once.
  if (!event.status.ok() && before.message() != event.status.message()) {
    output_.Note(Notice::Level::kWarning, "lease.unheld", idle.key.local().ToString(),
                 "Kept for process " + std::to_string(lease->owner.pid) + " of uid " +
                     std::to_string(lease->owner.uid) +
                     ", but not from other programs of this host: " + event.status.message());
  }
}

}  // namespace nd::core
