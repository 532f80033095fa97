// SPDX-License-Identifier: Apache-2.0
// Listeners: Listen in both dialects, pause, the end of listening, the requests that arrive and
// GetConnectionRequest.
#include <limits>
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"
#include "daemon/core/read_limits.h"

namespace nd::core {
namespace {

TupleKey RequestTuple(AdapterNo adapter, const provider::InboundRequest& request) {
  return {adapter, request.local, request.remote};
}

}  // namespace

void Broker::Impl::Do(Session& s, Pending p, const ListenOp& op) {
  Listener* const l = UseListener(s, p, op.listener);
  if (l == nullptr) return;
  if (op.local && !op.local->well_formed()) {
    Finish(s.id, p, CheckLocal(s, StateOf(*l).description.info, *op.local, true));
    return;
  }
  const auto wanted = op.local ? Listener::State::kUnbound : Listener::State::kBound;
  if (l->state != wanted || l->op) {
    const char* const why = l->state == Listener::State::kListening ? "The listener listens already."
                            : l->op                                 ? "The listener waits for its port."
                            : op.local                              ? "The listener is bound already."
                                                                    : "The listener is not bound.";
    Finish(s.id, p, {StatusCode::kInvalidDeviceState, why});
    return;
  }
  const Address& local = op.local ? *op.local : l->local;
  if (op.local) {
    if (Status bad = CheckLocal(s, StateOf(*l).description.info, local, true); !bad.ok()) {
      Finish(s.id, p, std::move(bad));
      return;
    }
  }
  if (const Verdict verdict = policy_.MayListen(s.who(), local); !verdict.allowed) {
    Finish(s.id, p, {StatusCode::kAccessDenied, verdict.reason, Detail::kPolicy});
    return;
  }
  if (Status draining = Draining(); !draining.ok()) {
    Finish(s.id, p, std::move(draining));
    return;
  }
  l->asked_backlog = op.backlog;
  l->connect_events = op.connect_events;
  if (!op.local) {
    StartListening(*l);
    Reply reply;
    reply.address = l->local;
    Finish(s.id, p, {}, std::move(reply));
    return;
  }
  l->op = p;
  l->listen_after_bind = true;
  const PortTaker taker = TakerOf(s, *l);
  Status taken = ports_.Take(taker, *op.local, &l->claim, &l->local);
  if (taken.ok() && ports_.AskHost(taker, &l->claim)) return;
  Reserved(*l, std::move(taken));
}

void Broker::Impl::StartListening(Listener& l) {
  l.state = Listener::State::kListening;
  l.queue.set_limit(ListenerQueue::EffectiveBacklog(l.asked_backlog, settings_.max_backlog));
  AdapterState& adapter = StateOf(l);
  ++adapter.listeners;
  Emit(CmListen{ports_.EndpointOf(l.claim), adapter.description.info.name, l.local});
  Note(Notice::Level::kInfo, "listener.listening", Show(l.handle), l.local.ToString() + ".");
}

void Broker::Impl::StopListening(Listener& l, Detail detail, const Status& gets) {
  if (l.state != Listener::State::kListening) return;
  l.state = Listener::State::kBound;
  AdapterState& adapter = StateOf(l);
  ND_CORE_CHECK(adapter.listeners > 0);
  --adapter.listeners;
  Emit(CmUnlisten{ports_.EndpointOf(l.claim)});
  while (RefuseOldest(l, detail)) {
  }
  CancelGets(l, gets);
  Note(Notice::Level::kInfo, "listener.closed", Show(l.handle), l.local.ToString() + ".");
}

bool Broker::Impl::RefuseOldest(Listener& l, Detail detail) {
  const std::optional<provider::InboundRequest> request = l.queue.TakeOldestRequest();
  if (!request) return false;
  const auto id = static_cast<std::uint64_t>(request->id);
  tuples_.Erase({l.adapter_no, request->local, request->remote}, Role::kPassive, id);
  cm_.erase(id);
  RefuseInbound(*request, &l, detail);
  return true;
}

void Broker::Impl::CancelGets(Listener& l, const Status& status) {
  while (const std::optional<Handle> get = l.queue.TakeOldestGet()) {
    Connector& c = ConnectorAt(*get);
    c.state = ConnectorState::kUnbound;
    c.waits_at = {};
    Finish(c.session, c.op, status);
  }
}

void Broker::Impl::SetPaused(Listener& l, bool paused) {
  l.queue.set_paused(paused);
}

void Broker::Impl::Do(Session& s, Pending p, const ControlConnectEventsOp& op) {
  Listener* const l = UseListener(s, p, op.listener);
  if (l == nullptr) return;
  if (l->state != Listener::State::kListening) {
    Finish(s.id, p, {StatusCode::kInvalidDeviceState, "The listener does not listen."});
    return;
  }
  SetPaused(*l, op.pause);
  Finish(s.id, p, {});
}

void Broker::Impl::On(const PauseListener& event) {
  Listener* const l = Find<Listener>(event.listener);
  if (l == nullptr || l->state != Listener::State::kListening) return;
  SetPaused(*l, event.pause);
  Note(Notice::Level::kWarning, event.pause ? "listener.paused" : "listener.resumed", Show(l->handle),
       l->local.ToString() + " by the administrator.");
}

void Broker::Impl::RefuseInbound(const provider::InboundRequest& request, Listener* l, Detail detail) {
  ++refusals_[detail];
  if (l != nullptr) ++l->refused;
  Note(Notice::Level::kInfo, "connection.refused", request.local.ToString(),
       "From " + request.remote.ToString() + ": " + std::string(Name(detail)) + ".");
  Emit(CmReject{request.id, detail, {}});
}

Listener* Broker::Impl::ListenerFor(AdapterNo adapter, const provider::InboundRequest& request, Detail* why) {
  *why = Detail::kNoListener;
  const std::optional<Handle> holder = ports_.ListenerAt(adapter, request.local);
  Listener* const l = holder ? Find<Listener>(*holder) : nullptr;
  if (l == nullptr || l->state != Listener::State::kListening || SessionOf(l->session).closed) return nullptr;
  return l;
}

void Broker::Impl::On(const CmRequested& event) {
  const provider::InboundRequest& request = event.request;
  const auto id = static_cast<std::uint64_t>(request.id);
  if (id == 0 || cm_.contains(id)) return;
  const std::optional<AdapterNo> adapter = AdapterNamed(adapters_, request.adapter);
  if (!adapter || !adapters_[*adapter].enabled) {
    RefuseInbound(request, nullptr, Detail::kAdapterDisabled);
    return;
  }
  Detail why = Detail::kNone;
  Listener* const l = ListenerFor(*adapter, request, &why);
  if (l == nullptr) {
    RefuseInbound(request, nullptr, why);
    return;
  }
  const ListenerQueue::Judgement judgement = l->queue.Judge();
  if (draining_ || judgement == ListenerQueue::Judgement::kPaused) {
    RefuseInbound(request, l, Detail::kPaused);
    return;
  }
  Session& s = SessionOf(l->session);
  if (!policy_.MayListen(s.who(), request.local).allowed) {
    RefuseInbound(request, l, Detail::kPolicy);
    return;
  }
  const TupleKey tuple = RequestTuple(*adapter, request);
  const TupleHolder other = tuples_.Conflict(tuple, Role::kPassive, settings_.allow_same_owner_bind_sharing);
  if (other.attempt != 0) {
    // A connection that the peer has ended, or that is dead here, is not a duplicate; the new one replaces
    // it.
    const Connector* const old = other.connector ? Find<Connector>(other.connector) : nullptr;
    const bool ended = old != nullptr && old->passive &&
                       (old->state == ConnectorState::kDead || old->state == ConnectorState::kPeerClosed);
    if (!ended) {
      RefuseInbound(request, l, Detail::kStaleConnection);
      return;
    }
  }
  if (judgement == ListenerQueue::Judgement::kFull) {
    RefuseInbound(request, l, Detail::kBacklogFull);
    return;
  }
  if (l->connect_events) {
    DeliverEvent(s, *l, request);
    return;
  }
  tuples_.Put(tuple, Role::kPassive, {id, {}});
  if (judgement == ListenerQueue::Judgement::kDeliver) {
    Deliver(ConnectorAt(*l->queue.TakeOldestGet()), *l, request);
    return;
  }
  const std::uint64_t key = next_sequence_++;
  cm_[id] = {{}, l->handle, key, now_};
  l->queue.AddRequest(key, request);
}

void Broker::Impl::DeliverEvent(Session& s, Listener& l, const provider::InboundRequest& request) {
  OpenedAdapter* const adapter = Find<OpenedAdapter>(l.adapter);
  ND_CORE_CHECK(adapter != nullptr);
  Status why;
  // An application that closed its adapter gets no new connectors; it waits for its listener to end.
  Connector* const c = adapter->closing ? nullptr : Create<Connector>(s, *adapter, &why);
  if (c == nullptr) {
    RefuseInbound(request, &l, adapter->closing ? Detail::kListenerClosed : Detail::kQuota);
    return;
  }
  tuples_.Put(RequestTuple(l.adapter_no, request), Role::kPassive,
              {static_cast<std::uint64_t>(request.id), {}});
  Deliver(*c, l, request);
  c->unanswered = true;
  l.queue.AddUnanswered();
  Emit(SendConnectEvent{{l.handle, c->handle}, l.session});
}

void Broker::Impl::LeaveBacklog(Connector& c) {
  if (!std::exchange(c.unanswered, false)) return;
  Listener* const l = Find<Listener>(c.through);
  ND_CORE_CHECK(l != nullptr);
  l->queue.RemoveUnanswered();
}

void Broker::Impl::Deliver(Connector& c, Listener& l, provider::InboundRequest request) {
  const auto id = static_cast<std::uint64_t>(request.id);
  const auto waited = cm_.find(id);
  BeginAttempt(c, waited == cm_.end() ? now_ : waited->second.arrived);
  c.phases->End(Phase::kDeliver, now_);
  c.state = ConnectorState::kIncoming;
  c.passive = true;
  c.waits_at = {};
  c.local = request.local;
  c.remote = request.remote;
  c.cm = request.id;
  c.attempt = id;
  cm_[id] = {c.handle, {}, 0, {}};
  tuples_.Put(TupleOf(c), Role::kPassive, {id, c.handle});
  c.has_tuple = true;
  ports_.Join(l.claim, &c.claim);
  c.through = l.handle;
  ++l.successors;
  // When the wire does not carry the limits of the peer, there are no bounds.
  constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();
  c.limits_known = request.limits_known;
  c.offer = request.limits_known ? request.peer_offer : ReadLimits{kUnbounded, kUnbounded};
  c.limits = PassiveView(c.offer, CapsOf(StateOf(c).description.info));
  c.data = std::move(request.private_data);
  Reply reply;
  reply.handle = c.handle;
  reply.address = c.remote;
  reply.limits = c.limits;
  reply.private_data = c.data;
  Finish(c.session, c.op, {}, std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const GetConnectionRequestOp& op) {
  Listener* const l = FindOwn<Listener>(s, op.listener);
  Connector* const c = FindOwn<Connector>(s, op.connector);
  if (l == nullptr || c == nullptr || c->reattaching) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (l->removed || c->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  if (l->adapter_no != c->adapter_no) {
    Finish(s.id, p, {StatusCode::kInvalidParameter2, "The connector belongs to another adapter."});
    return;
  }
  if (l->state != Listener::State::kListening || l->connect_events) {
    Finish(s.id, p,
           {StatusCode::kInvalidDeviceState, l->state == Listener::State::kListening
                                                 ? "The listener delivers its requests as events."
                                                 : "The listener does not listen."});
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kGetConnectionRequest, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, WrongState(verdict, c->state));
    return;
  }
  c->op = p;
  c->refusal_data = false;
  if (std::optional<provider::InboundRequest> request = l->queue.TakeOldestRequest()) {
    Deliver(*c, *l, std::move(*request));
    return;
  }
  c->state = ConnectorState::kWaiting;
  c->waits_at = l->handle;
  l->queue.AddGet(p.sequence, c->handle);
}

}  // namespace nd::core
