// SPDX-License-Identifier: Apache-2.0
// Bind, and the operations that continue when the provider has answered for a host port.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

PortTaker Broker::Impl::TakerOf(const Session& s, const Object& object) const {
  const PortKind kind = object.kind == ObjectKind::kListener         ? PortKind::kListener
                        : object.kind == ObjectKind::kSharedEndpoint ? PortKind::kSharedEndpoint
                                                                     : PortKind::kConnector;
  return {object.handle,
          object.adapter_no,
          kind,
          {s.id, UserOf(s.who()), s.who().pid, s.who().born},
          LimitOf(policy_.LimitsOf(s.who()), Resource::kPorts)};
}

Status Broker::Impl::CheckBind(const Session& s, const Object& object, const Address& local) const {
  // A kept port needs no rule: it passed the rules when it was taken, or the broker chose its number.
  if (ports_.IsKeptFor(object.adapter_no, local, ProcessOf(s))) return {};
  const Verdict verdict = policy_.MayBind(s.who(), local);
  if (verdict.allowed) return {};
  return {StatusCode::kAccessDenied, verdict.reason, Detail::kPolicy};
}

void Broker::Impl::On(const CmReserved& event) {
  const std::optional<Handle> asker = ports_.Answered(event);
  if (!asker) return;
  Object* const object = FindAny(*asker);
  ND_CORE_CHECK(object != nullptr);
  if (SessionOf(object->session).closed) {
    Reclaim(*object);
    return;
  }
  if (object->kind == ObjectKind::kConnector) {
    Reserved(static_cast<Connector&>(*object), event.status);
  } else if (object->kind == ObjectKind::kListener) {
    Reserved(static_cast<Listener&>(*object), event.status);
  } else {
    ND_CORE_CHECK(object->kind == ObjectKind::kSharedEndpoint);
    Reserved(static_cast<SharedEndpoint&>(*object), event.status);
  }
  LaunchWaiting();
}

void Broker::Impl::Do(Session& s, Pending p, const BindOp& op) {
  Object* const object = FindAny(op.handle);
  const bool usable = object != nullptr && object->session == s.id && !object->closing &&
                      (object->kind == ObjectKind::kConnector || object->kind == ObjectKind::kListener);
  if (!usable) {
    Finish(s.id, p, BadHandle("connector or listener"));
    return;
  }
  if (object->removed) {
    Finish(s.id, p, AdapterGone());
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
    if (status.ok()) status = CheckBind(s, l, op.local);
    if (status.ok()) status = ports_.Take(TakerOf(s, l), op.local, &l.claim, &l.local);
    l.op = p;
    l.listen_after_bind = false;
    if (status.ok() && ports_.AskHost(TakerOf(s, l), &l.claim)) return;
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
  if (status.ok()) status = CheckBind(s, c, op.local);
  if (status.ok()) status = ports_.Take(TakerOf(s, c), op.local, &c.claim, &c.local);
  c.op = p;
  if (status.ok() && ports_.AskHost(TakerOf(s, c), &c.claim)) return;
  Reserved(c, status);
}

void Broker::Impl::Reserved(Connector& c, Status status) {
  const bool awaited = c.claim.reserving;
  c.claim.reserving = false;
  if (awaited && !status.ok()) {
    ReleaseTuple(c);
    if (ports_.TakeAnother(TakerOf(SessionOf(c.session), c), &c.claim, &c.local, &status)) {
      if (c.state == ConnectorState::kConnecting) {
        // The 4-tuple is free, because the ephemeral port is new.
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
      if (c.made_queue_pair) {
        reply.queue_pair = c.queue_pair;
        reply.counter_slot = Find<QueuePair>(c.queue_pair)->counter_slot;
      }
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
  if (awaited && !status.ok() &&
      ports_.TakeAnother(TakerOf(SessionOf(l.session), l), &l.claim, &l.local, &status))
    return;
  Reply reply;
  if (!status.ok()) {
    l.local = {};
    l.claim = {};
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
  if (awaited && !status.ok() &&
      ports_.TakeAnother(TakerOf(SessionOf(e.session), e), &e.claim, &e.local, &status))
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
