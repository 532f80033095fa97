// SPDX-License-Identifier: Apache-2.0
// Taking and giving back local ports, with the provider's consent where ports are the host's.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
namespace {

Newcomer NewcomerOf(PortKind kind) {
  switch (kind) {
    case PortKind::kListener:
      return Newcomer::kListen;
    case PortKind::kConnector:
      return Newcomer::kExclusive;
    case PortKind::kSharedEndpoint:
      return Newcomer::kCreateEndpoint;
    case PortKind::kLease:
      break;
  }
  return Newcomer::kExclusive;
}

}  // namespace

Status Broker::Impl::CheckPrivileged(const Session& s, const Address& local) const {
  if (local.port() == 0 || local.port() >= settings_.privileged_ports_below || s.who.uid == 0) return {};
  return {StatusCode::kAccessDenied,
          "Ports below " + std::to_string(settings_.privileged_ports_below) + " need uid 0.",
          Detail::kPolicy};
}

Status Broker::Impl::TakePort(const Session& s, const Object& object, PortClaim& claim, const Address& local,
                              PortKind kind, Address* taken) {
  ND_CORE_CHECK(!claim.key);
  if (Status denied = CheckPrivileged(s, local); !denied.ok()) return denied;
  Address chosen = local;
  if (local.port() == 0) {
    Result<std::uint16_t> port = ports_.Choose(object.adapter_no, local);
    if (!port.ok()) return port.status();
    chosen.set_port(*port);
    claim.any = true;
    ++claim.candidates;
  } else {
    const PortKey key = PortKey::Of(object.adapter_no, local);
    PortEntry* const held = ports_.Find(key);
    const bool mine = held != nullptr && held->owner.uid == s.who.uid && held->owner.pid == s.who.pid;
    // While the provider's answer is awaited it is for the first holder alone.
    const bool settled =
        held != nullptr && !reservations_.contains(static_cast<std::uint64_t>(held->endpoint));
    const bool own_binding = mine && settled && kind == PortKind::kConnector &&
                             settings_.allow_same_owner_bind_sharing && held->kind != PortKind::kLease &&
                             held->kind != PortKind::kSharedEndpoint && !held->closing;
    // A listener made anew after the broker restarted, on the port whose connections outlived it.
    const bool comes_back =
        settled && held->reattached && held->owner.session == s.id && kind == PortKind::kListener;
    if (own_binding || comes_back) {
      ports_.AddReference(key);
      if (comes_back) {
        held->kind = PortKind::kListener;
        held->holder = object.handle;
        held->reattached = false;
      }
      claim.key = key;
      *taken = chosen;
      return {};
    }
    if (Status kept = ports_.CheckReserved(key, s.who.uid); !kept.ok()) return kept;
    DropDeadLeases(key);
    const Process who = ProcessOf(s);
    if (Status conflict = ports_.Check(key, NewcomerOf(kind), &who); !conflict.ok()) return conflict;
  }
  Status why;
  std::optional<Quota::Token> charge = Charge(s, Resource::kPorts, &why);
  if (!charge) return why;
  PortEntry entry;
  entry.kind = kind;
  entry.holder = object.handle;
  entry.owner = {s.id, s.who.uid, s.who.pid, s.who.born};
  entry.endpoint = provider::EndpointId{next_endpoint_++};
  entry.charge = std::move(*charge);
  claim.key = PortKey::Of(object.adapter_no, chosen);
  const auto own = [who = ProcessOf(s)](const Process& holder) { return holder == who; };
  for (const PortKey& lease : ports_.Leases(*claim.key, own)) DropLease(lease, &claim.replaced);
  ports_.Add(*claim.key, std::move(entry));
  Emit(LeaseTaken{{StateOf(object).description.info.name, chosen, kind, ProcessOf(s)}});
  *taken = chosen;
  return {};
}

bool Broker::Impl::Reserve(const Object& object, PortClaim& claim) {
  const AdapterState& adapter = StateOf(object);
  PortEntry* const entry = ports_.Find(*claim.key);
  const bool asks = adapter.description.reserve_ports && !entry->reserved;
  if (asks) {
    entry->reserved = true;
    claim.reserving = true;
    reservations_.insert({static_cast<std::uint64_t>(entry->endpoint), object.handle});
    Emit(CmReserve{entry->endpoint, adapter.description.info.name, claim.key->local()});
  }
  for (const EndpointId old : std::exchange(claim.replaced, {})) LetGo(old);
  return asks;
}

void Broker::Impl::DropPort(PortClaim& claim) {
  if (!claim.key) {
    claim = {};  // What an attempt that got no port asked for.
    return;
  }
  if (claim.reserving) {
    reservations_.erase(static_cast<std::uint64_t>(ports_.Find(*claim.key)->endpoint));
    claim.reserving = false;
  }
  std::optional<PortEntry> last = ports_.Release(*claim.key);
  if (last && last->reserved) Emit(CmRelease{last->endpoint});
  for (const EndpointId old : claim.replaced) LetGo(old);
  // The leases of an adapter that vanished ended with it.
  const AdapterState& adapter = adapters_[claim.key->adapter];
  if (last && adapter.present) Emit(LeaseFreed{adapter.description.info.name, claim.key->local()});
  claim = {};
}

void Broker::Impl::On(const CmReserved& event) {
  if (Kept(event)) return;
  const auto found = reservations_.find(static_cast<std::uint64_t>(event.endpoint));
  if (found == reservations_.end()) return;  // Given up in the meantime.
  Object* const object = FindAny(found->second);
  reservations_.erase(found);
  ND_CORE_CHECK(object != nullptr);
  switch (object->kind) {
    case ObjectKind::kConnector:
      Reserved(static_cast<Connector&>(*object), event.status);
      break;
    case ObjectKind::kListener:
      Reserved(static_cast<Listener&>(*object), event.status);
      break;
    case ObjectKind::kSharedEndpoint:
      Reserved(static_cast<SharedEndpoint&>(*object), event.status);
      break;
    default:
      ND_CORE_CHECK(false);
  }
  LaunchQueued();
}

// After a refusal by the provider: gives the port up and, when any would do, asks for another one. True when
// an answer has to be awaited again; otherwise the port is gone and *status is what to say.
bool Broker::Impl::NextCandidate(const Object& object, PortClaim& claim, PortKind kind, Address* local,
                                 Status* status) {
  const bool again = claim.any && *status == StatusCode::kSharingViolation;
  const std::uint32_t candidates = claim.candidates;
  PortEntry* const entry = ports_.Find(*claim.key);
  entry->reserved = false;  // The provider said no: there is nothing to release.
  claim.reserving = false;
  DropPort(claim);
  if (!again) return false;
  const std::uint32_t range = 1u + settings_.ephemeral_last - settings_.ephemeral_first;
  if (candidates >= range) {
    *status = Status(StatusCode::kTooManyAddresses, "The host uses every port of the ephemeral range.");
    return false;
  }
  claim.candidates = candidates;
  *status = TakePort(SessionOf(object.session), object, claim, local->WithPort(0), kind, local);
  return status->ok() && Reserve(object, claim);
}

void Broker::Impl::Do(Session& s, Pending p, const BindOp& op) {
  Object* const object = FindAny(op.handle);
  const bool usable = object != nullptr && object->session == s.id && !object->closing &&
                      (object->kind == ObjectKind::kConnector || object->kind == ObjectKind::kListener);
  if (!usable) {
    Finish(s.id, p,
           {StatusCode::kInvalidHandle, "The handle names no connector or listener of this session."});
    return;
  }
  if (object->removed) {
    Finish(s.id, p, {StatusCode::kDeviceRemoved, "The adapter was removed or disabled."});
    return;
  }
  const AdapterInfo& info = StateOf(*object).description.info;
  const bool is_listener = object->kind == ObjectKind::kListener;
  if (!op.local.well_formed()) {
    Finish(s.id, p, CheckLocal(s, info, op.local, is_listener));
    return;
  }
  if (is_listener) {
    Listener& l = static_cast<Listener&>(*object);
    if (l.state != Listener::State::kUnbound || l.claim.key) {
      Finish(s.id, p, {StatusCode::kAddressAlreadyAssociated, "The listener is bound already."});
      return;
    }
    Status status = CheckLocal(s, info, op.local, true);
    if (status.ok()) status = TakePort(s, l, l.claim, op.local, PortKind::kListener, &l.local);
    l.op = p;
    l.listen_after_bind = false;
    if (status.ok() && Reserve(l, l.claim)) return;
    Reserved(l, status);
    return;
  }
  Connector& c = static_cast<Connector&>(*object);
  const StatusCode verdict = VerdictOf(ConnectorOp::kBind, c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, {verdict, "The connector has a local address already."});
    return;
  }
  Status status = CheckLocal(s, info, op.local, false);
  if (status.ok()) status = TakePort(s, c, c.claim, op.local, PortKind::kConnector, &c.local);
  c.op = p;
  if (status.ok() && Reserve(c, c.claim)) return;
  Reserved(c, status);
}

void Broker::Impl::Reserved(Connector& c, Status status) {
  const bool awaited = c.claim.reserving;
  c.claim.reserving = false;
  if (awaited && !status.ok()) {
    ReleaseTuple(c);
    if (NextCandidate(c, c.claim, PortKind::kConnector, &c.local, &status)) {
      if (c.state == ConnectorState::kConnecting) {
        // A fresh ephemeral port cannot collide with a live tuple.
        c.has_tuple = true;
        tuples_.Put(TupleOf(c), Role::kActive, {c.attempt, c.handle});
      }
      return;
    }
  }
  if (c.state == ConnectorState::kConnecting) {
    if (status.ok()) {
      Launch(c);
    } else {
      FailConnect(c, std::move(status));
    }
    return;
  }
  if (c.reattaching) {
    if (status.ok()) {
      c.reattaching = false;
      BeginAttempt(c, now_);
      BecomeConnected(c);
      RecordEstablished(c);
      Reply reply;
      reply.handle = c.handle;
      Finish(c.session, c.op, {}, std::move(reply));
      return;
    }
    Finish(c.session, c.op, status);
    Reclaim(c);
    return;
  }
  Reply reply;
  if (status.ok()) {
    c.state = ConnectorState::kBound;
    c.persistent = true;
    reply.address = c.local;
  } else {
    c.local = {};
    c.claim = {};
  }
  Finish(c.session, c.op, status, std::move(reply));
}

void Broker::Impl::Reserved(Listener& l, Status status) {
  const bool awaited = l.claim.reserving;
  l.claim.reserving = false;
  if (awaited && !status.ok() && NextCandidate(l, l.claim, PortKind::kListener, &l.local, &status)) return;
  Reply reply;
  if (!status.ok()) {
    l.local = {};
    l.claim = {};
    l.connect_events = false;
    Finish(l.session, l.op, status);
    return;
  }
  l.state = Listener::State::kBound;
  reply.address = l.local;
  if (l.listen_after_bind) StartListening(l);
  Finish(l.session, l.op, {}, std::move(reply));
}

void Broker::Impl::Reserved(SharedEndpoint& e, Status status) {
  const bool awaited = e.claim.reserving;
  e.claim.reserving = false;
  if (awaited && !status.ok() && NextCandidate(e, e.claim, PortKind::kSharedEndpoint, &e.local, &status))
    return;
  if (!status.ok()) {
    Finish(e.session, e.op, status);
    e.closing = true;
    MaybeFinishClose(e.handle);
    return;
  }
  Reply reply;
  reply.handle = e.handle;
  reply.address = e.local;
  Finish(e.session, e.op, {}, std::move(reply));
}

}  // namespace nd::core
