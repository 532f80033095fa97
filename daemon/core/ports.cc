// SPDX-License-Identifier: Apache-2.0
// Takes and releases the ports of objects, with the consent of the provider where ports are those of the
// host.
#include "daemon/core/ports.h"

#include <string>

#include "daemon/core/check.h"
#include "daemon/core/fair_share.h"

namespace nd::core {
namespace {

// Returns how an object of this kind takes a port. Leases take none.
Newcomer NewcomerOf(PortKind kind) {
  if (kind == PortKind::kListener) return Newcomer::kListen;
  return kind == PortKind::kSharedEndpoint ? Newcomer::kCreateEndpoint : Newcomer::kExclusive;
}

}  // namespace

Ports::Ports(Options options, const Settings& settings, const AdapterTable& adapters, Quota& quota,
             Output& output)
    : owner_uid_(options.owner_uid),
      may_come_back_(std::move(options.may_come_back)),
      settings_(settings),
      adapters_(adapters),
      quota_(quota),
      output_(output),
      space_(options.seed, settings.ephemeral_first, settings.ephemeral_last) {}

Status Ports::CheckPrivileged(const PortOwner& owner, const Address& local) const {
  if (local.port() == 0 || local.port() >= settings_.privileged_ports_below || owner.uid == 0) return {};
  return {StatusCode::kAccessDenied,
          "Ports below " + std::to_string(settings_.privileged_ports_below) +
              " need uid 0 of the broker's own namespaces.",
          Detail::kPolicy};
}

Status Ports::CheckShare(const PortOwner& owner, const PortKey& key) {
  if (owner_uid_ && owner.uid == *owner_uid_) return {};
  const bool any = key.port == 0;
  if (!any && !space_.IsEphemeral(key.port)) return {};
  const PortUse use = space_.EphemeralUse(key, owner.uid);
  if (WithinFairShare(use.range, use.free, use.held)) return {};
  return {any ? StatusCode::kTooManyAddresses : StatusCode::kInsufficientResources,
          "Uid " + std::to_string(owner.uid) + " holds " + std::to_string(use.held) + " of the " +
              std::to_string(use.range) + " ephemeral ports of " + key.ip.IpToString() + "; the " +
              std::to_string(use.free) +
              " that are free are shared with other users. Close connectors that are not used.",
          Detail::kQuota};
}

bool Ports::Settled(const PortEntry& entry) const {
  return !asked_.contains(static_cast<std::uint64_t>(entry.endpoint));
}

Status Ports::Take(const PortTaker& taker, const Address& local, PortClaim* claim, Address* taken) {
  ND_CORE_CHECK(!claim->key);
  const PortOwner& owner = taker.owner;
  const Process who = owner.process();
  if (Status denied = CheckPrivileged(owner, local); !denied.ok()) return denied;
  Address chosen = local;
  if (local.port() == 0) {
    Result<std::uint16_t> port = space_.Choose(taker.adapter, local);
    if (!port.ok()) return port.status();
    if (Status full = CheckShare(owner, PortKey::Of(taker.adapter, local)); !full.ok()) return full;
    chosen.set_port(*port);
    claim->any = true;
    ++claim->candidates;
  } else {
    const PortKey key = PortKey::Of(taker.adapter, local);
    PortEntry* const held = space_.Find(key);
    const bool mine = held != nullptr && held->owner.uid == owner.uid && held->owner.pid == owner.pid;
    const provider::AdapterDescription& adapter = adapters_[taker.adapter].description;
    const bool own_binding = mine && Settled(*held) && taker.kind == PortKind::kConnector &&
                             settings_.allow_same_owner_bind_sharing && held->kind != PortKind::kLease &&
                             held->kind != PortKind::kSharedEndpoint && !held->closing;
    if (own_binding && held->kind == PortKind::kListener && !adapter.shares_listening_ports) {
      return {StatusCode::kSharingViolation,
              local.ToString() + " is the port of a listener of this process, and on adapter " +
                  adapter.info.name +
                  " a listener cannot share its port. Bind the connector to another port, or to port 0."};
    }
    // A listener that returns after a restart of the broker to the port of its surviving connections.
    const bool comes_back = held != nullptr && Settled(*held) && held->reattached &&
                            held->owner.session == owner.session && taker.kind == PortKind::kListener;
    if (own_binding || comes_back) {
      space_.AddReference(key);
      if (comes_back) {
        held->kind = PortKind::kListener;
        held->holder = taker.object;
        held->reattached = false;
      }
      claim->key = key;
      *taken = chosen;
      return {};
    }
    if (Status kept = space_.CheckReserved(key, owner.uid); !kept.ok()) return kept;
    DropDeadLeases(key, who);
    if (Status conflict = space_.Check(key, NewcomerOf(taker.kind), &who); !conflict.ok()) return conflict;
    const auto own = [&](const Process& holder) { return core::IsKeptFor(holder, who); };
    if (space_.Leases(key, own).empty()) {
      if (Status full = CheckShare(owner, key); !full.ok()) return full;
    }
  }
  Status why;
  std::optional<Quota::Token> charge = quota_.Charge(owner.uid, Resource::kPorts, taker.limit, &why);
  if (!charge) return why;
  PortEntry entry;
  entry.kind = taker.kind;
  entry.holder = taker.object;
  entry.owner = owner;
  entry.endpoint = EndpointId{next_endpoint_++};
  entry.charge = std::move(*charge);
  claim->key = PortKey::Of(taker.adapter, chosen);
  const auto own = [&](const Process& holder) { return core::IsKeptFor(holder, who); };
  for (const PortKey& lease : space_.Leases(*claim->key, own)) DropLease(lease, &claim->replaced);
  space_.Add(*claim->key, std::move(entry));
  output_.Emit(LeaseTaken{{adapters_[taker.adapter].description.info.name, chosen, taker.kind, who}});
  *taken = chosen;
  return {};
}

Status Ports::TakeBack(const PortTaker& taker, bool passive, const Address& local, PortClaim* claim,
                       Address* taken) {
  const PortKey key = PortKey::Of(taker.adapter, local);
  const PortEntry* const held = space_.Find(key);
  const bool mine = held != nullptr && held->owner.session == taker.owner.session && Settled(*held) &&
                    (held->reattached || (passive && held->kind == PortKind::kListener && !held->closing) ||
                     (!passive && held->kind == PortKind::kSharedEndpoint && !held->closing));
  if (mine) {
    *taken = local;
    claim->key = key;
    space_.AddReference(key);
    return {};
  }
  Status status = Take(taker, local, claim, taken);
  // When it shares the port of a live holder, the port remains with that holder.
  if (PortEntry* const entry = space_.Find(key); status.ok() && entry->references == 1) {
    entry->reattached = true;
  }
  return status;
}

void Ports::Join(const PortClaim& holder, PortClaim* claim) {
  claim->key = holder.key;
  space_.AddReference(*claim->key);
}

bool Ports::AskHost(const PortTaker& taker, PortClaim* claim) {
  const provider::AdapterDescription& adapter = adapters_[taker.adapter].description;
  PortEntry* const entry = space_.Find(*claim->key);
  const bool asks = adapter.reserve_ports && !entry->reserved;
  if (asks) {
    entry->reserved = true;
    claim->reserving = true;
    asked_.insert({static_cast<std::uint64_t>(entry->endpoint), {taker.object, *claim->key}});
    output_.Emit(CmReserve{entry->endpoint, adapter.info.name, claim->key->local(), taker.owner.session,
                           taker.kind == PortKind::kListener});
  }
  for (const EndpointId old : std::exchange(claim->replaced, {})) LetGo(old);
  return asks;
}

void Ports::Drop(PortClaim* claim) {
  if (!claim->key) {
    *claim = {};  // Clears the request of an attempt that got no port.
    return;
  }
  const PortKey key = *claim->key;
  if (claim->reserving) asked_.erase(static_cast<std::uint64_t>(space_.Find(key)->endpoint));
  std::optional<PortEntry> last = space_.Release(key);
  if (last && last->reserved) output_.Emit(CmRelease{last->endpoint});
  for (const EndpointId old : claim->replaced) LetGo(old);
  // The leases of a vanished adapter ended with it.
  const AdapterState& adapter = adapters_[key.adapter];
  if (last && adapter.present) output_.Emit(LeaseFreed{adapter.description.info.name, key.local()});
  *claim = {};
}

void Ports::SetClosing(const PortClaim& claim, Handle object) {
  if (!claim.key) return;
  PortEntry* const entry = space_.Find(*claim.key);
  if (entry->holder == object) entry->closing = true;
}

bool Ports::MayJoin(const PortClaim& endpoint) const {
  return MayTake(space_.Find(*endpoint.key)->holding(), Newcomer::kConnectShared) == PortAnswer::kOk;
}

bool Ports::IsKeptFor(AdapterNo adapter, const Address& local, const Process& who) const {
  const PortEntry* const held = space_.Find(PortKey::Of(adapter, local));
  return held != nullptr && held->kind == PortKind::kLease && core::IsKeptFor(held->owner.process(), who);
}

std::optional<Handle> Ports::ListenerAt(AdapterNo adapter, const Address& local) const {
  const std::optional<PortKey> key = space_.Match(adapter, local);
  if (!key) return std::nullopt;
  const PortEntry* const entry = space_.Find(*key);
  if (MayTake(entry->holding(), Newcomer::kInbound) != PortAnswer::kOk) return std::nullopt;
  return entry->holder;
}

EndpointId Ports::EndpointOf(const PortClaim& claim) const {
  return space_.Find(*claim.key)->endpoint;
}

std::optional<Handle> Ports::Answered(const CmReserved& event) {
  const auto endpoint = static_cast<std::uint64_t>(event.endpoint);
  if (const auto found = idle_asked_.find(endpoint); found != idle_asked_.end()) {
    const Idle idle = found->second;
    idle_asked_.erase(found);
    AnsweredIdle(idle, event);
    return std::nullopt;
  }
  const auto found = asked_.find(endpoint);
  if (found == asked_.end()) return std::nullopt;
  const Asked asked = found->second;
  asked_.erase(found);
  // After a refusal there is nothing to release.
  if (!event.status.ok()) space_.Find(asked.key)->reserved = false;
  return asked.object;
}

bool Ports::TakeAnother(const PortTaker& taker, PortClaim* claim, Address* local, Status* status) {
  const bool again = claim->any && *status == StatusCode::kSharingViolation;
  const std::uint32_t candidates = claim->candidates;
  Drop(claim);
  if (!again) return false;
  const std::uint32_t range = 1u + settings_.ephemeral_last - settings_.ephemeral_first;
  if (candidates >= range) {
    *status = Status(StatusCode::kTooManyAddresses, "The host uses every port of the ephemeral range.");
    return false;
  }
  claim->candidates = candidates;
  *status = Take(taker, local->WithPort(0), claim, local);
  return status->ok() && AskHost(taker, claim);
}

void Ports::SettingsChanged() {
  space_.SetRange(settings_.ephemeral_first, settings_.ephemeral_last);
}

}  // namespace nd::core
