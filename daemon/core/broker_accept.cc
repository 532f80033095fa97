// SPDX-License-Identifier: Apache-2.0
// The passive side: requests from the wire, GetConnectionRequest, Accept and Reject.
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
  if (!policy_.MayListen(s.who, request.local).allowed) {
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

void Broker::Impl::Do(Session& s, Pending p, const AcceptOp& op) {
  Connector* const c = FindOwn<Connector>(s, op.connector);
  QueuePair* const q = FindOwn<QueuePair>(s, op.queue_pair);
  if (c == nullptr || c->reattaching || q == nullptr) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (c->removed || q->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  const AdapterInfo& info = StateOf(*c).description.info;
  if (Status data = CheckPrivateData(op.private_data.size(), op.private_data_length, info.max_callee_data);
      !data.ok()) {
    Finish(s.id, p, std::move(data));
    return;
  }
  if (q->adapter_no != c->adapter_no) {
    Finish(s.id, p, {StatusCode::kInvalidParameter1, "The queue pair belongs to another adapter."});
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kAccept, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, verdict == c->ended.code() && !c->ended.ok() ? c->ended : WrongState(verdict, c->state));
    return;
  }
  if (Status busy = CheckQueuePair(*q); !busy.ok()) {
    Emit(CmReject{*c->cm, Detail::kPeerRejected, {}});
    ForgetCm(*c, false);
    Kill(*c, {ConnectionRecord::Outcome::kFailed, busy});
    Finish(s.id, p, std::move(busy));
    return;
  }
  LeaveBacklog(*c);
  c->queue_pair = q->handle;
  q->connector = c->handle;
  c->phases->End(Phase::kAccept, now_);
  c->limits = AcceptLimits(op.limits, c->offer, CapsOf(info));
  c->disconnect_event = op.disconnect_event;
  c->state = ConnectorState::kAccepting;
  c->op = p;
  ArmEstablish(*c);
  provider::AcceptParams params;
  params.limits = c->limits;
  params.private_data = op.private_data;
  params.device_qp = q->device_number;
  params.owner_uid = s.who.uid;
  params.owner_pid = s.who.pid;
  Emit(CmAccept{*c->cm, std::move(params)});
}

void Broker::Impl::Do(Session& s, Pending p, const RejectOp& op) {
  Connector* const c = FindOwn<Connector>(s, op.connector);
  if (c == nullptr || c->reattaching) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (c->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  const AdapterInfo& info = StateOf(*c).description.info;
  if (Status data = CheckPrivateData(op.private_data.size(), op.private_data_length, info.max_callee_data);
      !data.ok()) {
    Finish(s.id, p, std::move(data));
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kReject, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, verdict == c->ended.code() && !c->ended.ok() ? c->ended : WrongState(verdict, c->state));
    return;
  }
  Emit(CmReject{*c->cm, Detail::kPeerRejected, op.private_data});
  ForgetCm(*c, false);
  Kill(*c, {ConnectionRecord::Outcome::kFailed,
            {StatusCode::kConnectionRefused, "This application rejected the connection."}});
  Finish(s.id, p, {});
}

}  // namespace nd::core
