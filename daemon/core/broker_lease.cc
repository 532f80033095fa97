// SPDX-License-Identifier: Apache-2.0
// Ports that outlived the previous broker: nobody but their former holder gets them for a while.
//
// Only the port is kept. What was under way on it ended with the former broker, and no quota is charged until
// the holder is back.
#include <utility>

#include "daemon/core/impl.h"

namespace nd::core {

void Broker::Impl::HoldLeases(const std::vector<Lease>& leases, Time until) {
  for (const Lease& lease : leases) {
    const std::optional<AdapterNo> adapter = AdapterNamed(lease.adapter);
    if (!adapter || !lease.local.well_formed() || lease.local.port() == 0) continue;
    const PortKey key = PortKey::Of(*adapter, lease.local);
    if (!ports_.Check(key, Newcomer::kExclusive).ok()) continue;
    PortEntry entry;
    entry.kind = PortKind::kLease;
    entry.owner = {SessionId{}, lease.holder.uid, lease.holder.pid, lease.holder.born};
    ports_.Add(key, std::move(entry));
    if (grace_timer_) continue;
    grace_timer_ = {until, next_sequence_++};
    timers_.insert({grace_timer_, {{}, TimerKind::kGrace}});
  }
}

void Broker::Impl::DropLease(const PortKey& key, std::vector<EndpointId>* replaced) {
  const std::optional<PortEntry> lease = ports_.Release(key);
  const AdapterState& adapter = adapters_[key.adapter];
  if (adapter.present) Emit(LeaseFreed{adapter.description.info.name, key.local()});
  if (!lease->reserved) return;
  if (replaced == nullptr) {
    LetGo(lease->endpoint);
  } else {
    replaced->push_back(lease->endpoint);
  }
}

void Broker::Impl::DropDeadLeases(const PortKey& key) {
  if (!may_come_back_) return;
  const auto gone = [this](const Process& holder) { return !may_come_back_(holder); };
  for (const PortKey& lease : ports_.Leases(key, gone)) DropLease(lease);
}

void Broker::Impl::EndGrace() {
  std::vector<PortKey> left;
  for (const auto& [key, entry] : ports_.entries()) {
    if (entry.kind == PortKind::kLease) left.push_back(key);
  }
  for (const PortKey& key : left) DropLease(key);
  if (left.empty()) return;
  Note(Notice::Level::kInfo, "lease.ended", "",
       std::to_string(left.size()) + " ports are free again whose holders did not come back for them.");
}

}  // namespace nd::core
