// SPDX-License-Identifier: Apache-2.0
// The active side: Connect in its three dialects, CompleteConnect, and the pacing of handshakes.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"
#include "daemon/core/read_limits.h"

namespace nd::core {
ConnectorFlags Broker::Impl::FlagsOf(const Connector& c) const {
  return {.refusal_data = c.refusal_data,
          .was_bound = c.claim.key.has_value(),
          .was_connected = c.was_connected,
          .withdrawn_incoming = c.withdrawn_incoming,
          .withdrawn_replied = c.withdrawn_replied,
          .expired_replied = c.expired_replied,
          .completion_told = c.completion_told,
          .notify_success = settings_.notify_success_on_local_disconnect};
}

StatusCode Broker::Impl::VerdictOf(ConnectorOp op, const Connector& c) const {
  // While a Bind waits for the provider the state is unchanged, but no other operation may start.
  if (c.state == ConnectorState::kUnbound && c.claim.reserving) {
    if (op == ConnectorOp::kBind) return StatusCode::kAddressAlreadyAssociated;
    if (op == ConnectorOp::kConnectNd2 || op == ConnectorOp::kConnectNdk)
      return StatusCode::kConnectionActive;
    if (op == ConnectorOp::kGetConnectionRequest) return StatusCode::kConnectionActive;
  }
  return Judge(op, c.state, FlagsOf(c));
}

void Broker::Impl::Do(Session& s, Pending p, const ConnectOp& op) {
  Connector* const c = FindOwn<Connector>(s, op.connector);
  QueuePair* const q = FindOwn<QueuePair>(s, op.queue_pair);
  SharedEndpoint* const e = op.shared_endpoint ? FindOwn<SharedEndpoint>(s, op.shared_endpoint) : nullptr;
  if (c == nullptr || c->reattaching || q == nullptr || (op.shared_endpoint && (e == nullptr || e->op))) {
    Finish(s.id, p, BadHandle());
    return;
  }
  const AdapterInfo& info = StateOf(*c).description.info;
  const bool ndk = op.source.has_value() || op.shared_endpoint;
  // Checks of form, which change nothing.
  Status shape;
  if (c->removed || q->removed || (e != nullptr && e->removed)) {
    shape = AdapterGone();
  } else if (op.source && op.shared_endpoint) {
    shape = Status(StatusCode::kInvalidParameterMix, "Give a source address or a shared endpoint, not both.");
  } else if (Status data =
                 CheckPrivateData(op.private_data.size(), op.private_data_length, info.max_caller_data);
             !data.ok()) {
    shape = std::move(data);
  } else if (op.source && !op.source->well_formed()) {
    shape = Status(StatusCode::kInvalidAddress, "The source is not a complete IPv4 or IPv6 address.");
  } else if (Status remote = CheckDestinationShape(op.remote, op.source      ? *op.source
                                                              : e != nullptr ? e->local
                                                                             : c->local);
             !remote.ok()) {
    shape = std::move(remote);
  } else if (q->adapter_no != c->adapter_no) {
    shape = Status(StatusCode::kInvalidParameter1, "The queue pair belongs to another adapter.");
  } else if (e != nullptr && e->adapter_no != c->adapter_no) {
    shape = Status(StatusCode::kInvalidParameter2, "The shared endpoint belongs to another adapter.");
  }
  if (!shape.ok()) {
    Finish(s.id, p, std::move(shape));
    return;
  }
  const StatusCode verdict = VerdictOf(ndk ? ConnectorOp::kConnectNdk : ConnectorOp::kConnectNd2, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, WrongState(verdict, c->state));
    return;
  }
  if (Status draining = Draining(); !draining.ok()) {
    Finish(s.id, p, std::move(draining));
    return;
  }
  // From here on it is an attempt, and an error is a failed connection.
  c->state = ConnectorState::kConnecting;
  c->passive = false;
  c->op = p;
  c->attempt = next_attempt_++;
  c->refusal_data = false;
  c->data.clear();
  c->remote = op.remote;
  BeginAttempt(*c, now_);
  if (Status busy = CheckQueuePair(*q); !busy.ok()) {
    FailConnect(*c, std::move(busy));
    return;
  }
  Status local = ConnectLocal(s, *c, op, e);
  if (!local.ok()) {
    FailConnect(*c, std::move(local));
    return;
  }
  c->queue_pair = q->handle;
  q->connector = c->handle;
  c->offer = CapOffer(op.limits, CapsOf(info));
  c->send_data = op.private_data;
  ArmEstablish(*c);
  Note(Notice::Level::kInfo, "connection.connecting", Show(c->handle), Ends(*c, " to ", "."));
  if (ports_.AskHost(TakerOf(s, *c), &c->claim)) return;
  Launch(*c);
}

Status Broker::Impl::CheckQueuePair(const QueuePair& q) {
  const Connector* const holder = q.connector ? Find<Connector>(q.connector) : nullptr;
  if (holder != nullptr && holder->state != ConnectorState::kDead) {
    return {StatusCode::kConnectionActive, "The queue pair belongs to another connection."};
  }
  if (q.spent) {
    return {StatusCode::kInvalidDeviceState, "The queue pair was connected before; make a new one."};
  }
  return {};
}

// Checks and takes local address, 4-tuple, policy and destination, in that order. After a failure FailConnect
// releases them.
Status Broker::Impl::ConnectLocal(Session& s, Connector& c, const ConnectOp& op, SharedEndpoint* endpoint) {
  if (endpoint != nullptr) {
    ND_CORE_CHECK(ports_.MayJoin(endpoint->claim));  // The handle of a closing one is invalid.
    ports_.Join(endpoint->claim, &c.claim);
    c.local = endpoint->local;
    c.through = endpoint->handle;
    ++endpoint->successors;
  } else if (op.source) {
    if (Status bad = CheckLocal(s, StateOf(c).description.info, *op.source, false); !bad.ok()) return bad;
    if (Status bad = CheckBind(s, c, *op.source); !bad.ok()) return bad;
    if (Status bad = ports_.Take(TakerOf(s, c), *op.source, &c.claim, &c.local); !bad.ok()) return bad;
  }
  const TupleHolder other =
      tuples_.Conflict(TupleOf(c), Role::kActive, settings_.allow_same_owner_bind_sharing);
  if (other.attempt != 0) {
    return {StatusCode::kAddressAlreadyExists,
            "A connection from " + c.local.ToString() + " to " + c.remote.ToString() + " exists already."};
  }
  tuples_.Put(TupleOf(c), Role::kActive, {c.attempt, c.handle});
  c.has_tuple = true;
  if (const Verdict verdict = policy_.MayConnect(s.who(), c.remote); !verdict.allowed) {
    return {StatusCode::kAccessDenied, verdict.reason, Detail::kPolicy};
  }
  return CheckDestinationUsable(c.remote, settings_.bad_network_name);
}

void Broker::Impl::Launch(Connector& c) {
  attempts_.Add(c.handle, UserOf(SessionOf(c.session).who()), c.remote);
}

void Broker::Impl::SendConnect(Connector& c) {
  Arm(c, TimerKind::kPace, now_ + settings_.handshake_pace);
  c.cm = CmId{c.attempt};
  cm_[c.attempt] = {c.handle, {}, 0, {}};
  c.phases->End(Phase::kQueue, now_);
  const AdapterState& adapter = StateOf(c);
  const Session& s = SessionOf(c.session);
  provider::ConnectParams params;
  params.id = *c.cm;
  params.adapter = adapter.description.info.name;
  if (adapter.description.reserve_ports) params.endpoint = ports_.EndpointOf(c.claim);
  params.local = c.local;
  params.remote = c.remote;
  params.offer = c.offer;
  params.private_data = std::exchange(c.send_data, {});
  params.device_qp = Find<QueuePair>(c.queue_pair)->device_number;
  params.owner_uid = s.who().uid;
  params.owner_pid = s.who().pid;
  params.client = provider::ClientId{static_cast<std::uint64_t>(s.id)};
  params.extensions = (s.who().features & session::kClientExtensions) != 0;
  Emit(CmConnect{std::move(params), c.session, c.op.op_id});
}

void Broker::Impl::LaunchWaiting() {
  // Connects of sessions that are being reclaimed are not sent; a few at a time are removed from the queue.
  for (std::uint32_t dropped = 0; dropped <= reclaim_slice_;) {
    const std::optional<Handle> next = attempts_.Next();
    if (!next) return;
    Connector& c = ConnectorAt(*next);
    if (SessionOf(c.session).closed) {
      attempts_.Remove(*next);
      ++dropped;
    } else {
      SendConnect(c);
    }
  }
}

void Broker::Impl::LeaveAttempts(Connector& c) {
  if (attempts_.Remove(c.handle) != Attempts::Place::kFlies) return;
  Disarm(c.pace_timer);
  LaunchWaiting();
}

void Broker::Impl::LeaveLine(Connector& c) {
  if (attempts_.PlaceOf(c.handle) == Attempts::Place::kWaits) attempts_.Remove(c.handle);
}

void Broker::Impl::ReleaseTuple(Connector& c) {
  if (!c.has_tuple) return;
  c.has_tuple = false;
  tuples_.Erase(TupleOf(c), c.passive ? Role::kPassive : Role::kActive, c.attempt);
}

// May free a queue pair that is being closed.
void Broker::Impl::DetachQueuePair(Connector& c) {
  if (!c.queue_pair) return;
  QueuePair* const q = Find<QueuePair>(std::exchange(c.queue_pair, {}));
  ND_CORE_CHECK(q != nullptr && q->connector == c.handle);
  q->connector = {};
  // The client never received the handle of a queue pair whose connection did not come back.
  if (c.reattaching && c.made_queue_pair) q->closing = true;
  MaybeFinishClose(q->handle);
}

void Broker::Impl::ForgetCm(Connector& c, bool abort) {
  c.preparing = false;
  if (!c.cm) return;
  cm_.erase(static_cast<std::uint64_t>(*c.cm));
  if (abort) Emit(CmAbort{*c.cm});
  c.cm.reset();
}

void Broker::Impl::Kill(Connector& c, Ending ending) {
  RecordEnd(c, std::move(ending));
  LeaveAttempts(c);
  LeaveBacklog(c);
  Disarm(c.establish_timer);
  Disarm(c.goodbye_timer);
  ForgetCm(c, true);
  if (c.claim.reserving) {
    ReleaseTuple(c);
    ports_.Drop(&c.claim);
    c.local = {};
  }
  if (c.state == ConnectorState::kConnected) --counters_.active_connection;
  c.state = ConnectorState::kDead;
  c.send_data.clear();
  if (!c.was_connected) DetachQueuePair(c);
}

void Broker::Impl::FailConnect(Connector& c, Status status) {
  ND_CORE_CHECK(c.state == ConnectorState::kConnecting);
  ++counters_.connect_failure;
  Note(Notice::Level::kInfo, "connection.failed", Show(c.handle), Ends(c, " to ", ": " + status.ToString()));
  const bool retryable = IsRetryableConnectFailure(status.code());
  Finish(c.session, c.op, status);  // Before the completion of a Close of the queue pair that waited for it.
  Kill(c, {ConnectionRecord::Outcome::kFailed, std::move(status)});
  if (!retryable) return;
  ReleaseTuple(c);
  c.remote = {};
  c.state = ConnectorState::kBound;
  if (c.persistent) return;
  c.state = ConnectorState::kUnbound;
  ports_.Drop(&c.claim);
  c.local = {};
  if (const Handle through = std::exchange(c.through, {})) DropSuccessor(through);
}

void Broker::Impl::ArmEstablish(Connector& c) {
  if (settings_.establish_timeout > Duration::zero()) {
    Arm(c, TimerKind::kEstablish, now_ + settings_.establish_timeout);
  }
}

void Broker::Impl::Expire(Connector& c) {
  const Status expired(StatusCode::kIoTimeout, "The administrator's limit for establishment passed.",
                       Detail::kLocalAdministrator);
  switch (c.state) {
    case ConnectorState::kConnecting:
      FailConnect(c, expired);
      return;
    case ConnectorState::kReplied:
      Kill(c, {ConnectionRecord::Outcome::kFailed, expired});
      c.expired_replied = true;
      c.ended = expired;
      return;
    default:  // In any other state the timer is disarmed.
      ND_CORE_CHECK(c.state == ConnectorState::kCompleting || c.state == ConnectorState::kAccepting);
      Finish(c.session, c.op, expired);
      Kill(c, {ConnectionRecord::Outcome::kFailed, expired});
      return;
  }
}

void Broker::Impl::On(const CmReached& event) {
  Connector* const c = FindByCm(event.id);
  if (c != nullptr && c->state == ConnectorState::kConnecting) c->phases->End(Phase::kConnect, now_);
}

void Broker::Impl::On(const CmReplied& event) {
  Connector* const live = FindByCm(event.id);
  if (live == nullptr || live->state != ConnectorState::kConnecting) return;
  Connector& c = *live;
  LeaveAttempts(c);
  c.limits_known = event.limits_known;
  if (event.limits_known) {
    const std::optional<ReadLimits> limits =
        ActiveFinal(c.offer, event.peer, CapsOf(StateOf(c).description.info));
    if (!limits) {
      Emit(CmReject{*c.cm, Detail::kProtocol, {}});
      ForgetCm(c, false);
      FailConnect(c, {StatusCode::kInsufficientResources,
                      "The peer wants more reads in flight than this adapter can serve.", Detail::kProtocol});
      return;
    }
    c.limits = *limits;
  } else {
    c.limits = c.offer;
  }
  c.state = ConnectorState::kReplied;
  c.phases->End(Phase::kReply, now_);
  c.data = event.private_data;
  Reply reply;
  reply.address = c.local;
  reply.limits = c.limits;
  reply.private_data = c.data;
  Finish(c.session, c.op, {}, std::move(reply));
}

void Broker::Impl::On(const CmRejected& event) {
  Connector* const live = TakeConnecting(event.id);
  if (live == nullptr) return;
  Connector& c = *live;
  if (event.status.detail() == Detail::kPeerRejected && !event.private_data.empty()) {
    c.data = event.private_data;
    c.refusal_data = true;
  }
  FailConnect(c, event.status.ok() || event.status.pending()
                     ? Status(StatusCode::kConnectionRefused, "The peer refused.", Detail::kPeerRejected)
                     : event.status);
}

// Takes the connector of an attempt that the wire ended before its answer.
Connector* Broker::Impl::TakeConnecting(CmId id) {
  const auto found = cm_.find(static_cast<std::uint64_t>(id));
  if (found == cm_.end() || !found->second.connector) return nullptr;
  Connector& c = ConnectorAt(found->second.connector);
  if (c.state != ConnectorState::kConnecting) return nullptr;
  return ForgetEndedCm(c) ? &c : nullptr;
}

void Broker::Impl::On(const CmFailed& event) {
  Connector* const c = TakeConnecting(event.id);
  if (c == nullptr) return;
  FailConnect(*c, event.status.ok() || event.status.pending()
                      ? Status(StatusCode::kConnectionRefused, "The attempt failed.", Detail::kTransport)
                      : event.status);
}

void Broker::Impl::Do(Session& s, Pending p, const CompleteConnectOp& op) {
  Connector* const c = UseConnector(s, p, op.connector);
  if (c == nullptr) return;
  const StatusCode verdict = VerdictOf(ConnectorOp::kCompleteConnect, *c);
  if (verdict != StatusCode::kSuccess) {
    const bool told = verdict == c->ended.code() && !c->ended.ok();
    if (c->withdrawn_replied || c->expired_replied) c->completion_told = true;
    Finish(s.id, p, told ? c->ended : WrongState(verdict, c->state));
    return;
  }
  const TupleHolder sibling = tuples_.Sibling(TupleOf(*c), Role::kActive);
  const Connector* const other = sibling.connector ? Find<Connector>(sibling.connector) : nullptr;
  if (other != nullptr && other->state == ConnectorState::kConnected) {
    const Status taken(StatusCode::kAddressAlreadyExists,
                       "The peer's connection between the same addresses is up.");
    Kill(*c, {ConnectionRecord::Outcome::kFailed, taken});
    Finish(s.id, p, taken);
    return;
  }
  c->state = ConnectorState::kCompleting;
  c->phases->End(Phase::kComplete, now_);
  c->disconnect_event = op.disconnect_event;
  c->op = p;
  Emit(CmConfirm{*c->cm});
}

}  // namespace nd::core
