// SPDX-License-Identifier: Apache-2.0
// The result of each operation. The order of checks: handle, adapter removed, shape, state, queue pair,
// address, 4-tuple, resources.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using Code = StatusCode;

Code DataStatus(const Bytes& carried, std::uint32_t declared, std::uint32_t most) {
  if (carried.size() != declared) return Code::kAccessViolation;
  return declared > most ? Code::kInvalidBufferSize : Code::kSuccess;
}

}  // namespace

Model::Thing* Model::Own(SessionId session, Handle handle, std::optional<Kind> kind) {
  Thing* const thing = ByHandle(handle);
  if (thing == nullptr || thing->session != session || thing->closing) return nullptr;
  return kind && thing->kind != *kind ? nullptr : thing;
}

Model::Thing* Model::UsableAdapter(SessionId s, OpId op, Handle handle) {
  Thing* const adapter = Own(s, handle, Kind::kAdapter);
  if (adapter == nullptr) {
    End(s, op, Code::kInvalidHandle);
    return nullptr;
  }
  if (!adapters_[adapter->adapter].present || !adapters_[adapter->adapter].enabled) {
    End(s, op, Code::kDeviceRemoved);
    return nullptr;
  }
  return adapter;
}

Model::Thing* Model::UsableConnector(SessionId s, OpId op, Handle handle) {
  Thing* const c = Own(s, handle, Kind::kConnector);
  if (c == nullptr || c->reattaching) {
    End(s, op, Code::kInvalidHandle);
    return nullptr;
  }
  if (c->removed) {
    End(s, op, Code::kDeviceRemoved);
    return nullptr;
  }
  return c;
}

void Model::Do(SessionId s, OpId op, const core::ListAdaptersOp&) {
  End(s, op, Code::kSuccess);
}

void Model::Do(SessionId s, OpId op, const core::OpenAdapterOp& o) {
  const Session& session = sessions_.at(s);
  const bool by_address = o.name.empty() && o.local.family() != Address::Family::kUnspecified;
  for (std::size_t no = 0; no < adapters_.size(); ++no) {
    const Adapter& a = adapters_[no];
    if (!a.present || (!o.name.empty() && a.description.info.name != o.name)) continue;
    if (by_address && CheckLocal(session, no, o.local, false) != Code::kSuccess) continue;
    if (!a.enabled) {
      End(s, op, Code::kDeviceNotReady);
      return;
    }
    Thing& made = Make(Kind::kAdapter, s, no, 0);
    End(s, op, Code::kSuccess).learn = [this, id = made.id](const core::Complete& c) {
      GiveName(*Find(id), c.reply.handle);
    };
    return;
  }
  End(s, op, Code::kInvalidParameter);
}

void Model::Do(SessionId s, OpId op, const core::ResolveAddressOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  if (!o.remote.well_formed()) {
    End(s, op, Code::kInvalidAddress);
    return;
  }
  bool known = !sessions_.at(s).who.foreign_network;
  known = known && std::ranges::any_of(Info(*adapter).addresses,
                                       [&](const Address& a) { return a.family() == o.remote.family(); });
  End(s, op, known ? Code::kSuccess : Code::kNetworkUnreachable);
}

void Model::Do(SessionId s, OpId op, const core::CheckAddressOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  const bool known = o.local.family() == Address::Family::kIpv4 || o.local.family() == Address::Family::kIpv6;
  End(s, op,
      known && !o.local.well_formed() ? Code::kInvalidParameter2
                                      : CheckLocal(sessions_.at(s), adapter->adapter, o.local, false));
}

void Model::Create(Kind kind, SessionId s, OpId op, Handle handle) {
  const Thing* const adapter = UsableAdapter(s, op, handle);
  if (adapter == nullptr) return;
  if (const Code full = Quota(sessions_.at(s), kind); full != Code::kSuccess) {
    End(s, op, full);
    return;
  }
  Thing& made = Make(kind, s, adapter->adapter, adapter->id);
  End(s, op, Code::kSuccess).learn = [this, id = made.id](const core::Complete& c) {
    GiveName(*Find(id), c.reply.handle);
  };
}

void Model::Do(SessionId s, OpId op, const core::CreateQueuePairOp& o) {
  const Thing* const adapter = Own(s, o.adapter, Kind::kAdapter);
  const bool usable =
      adapter != nullptr && adapters_[adapter->adapter].present && adapters_[adapter->adapter].enabled;
  if (usable && o.receive_depth > Info(*adapter).max_receive_queue_depth) {
    End(s, op, Code::kInvalidParameter5);
  } else if (usable && o.initiator_depth > Info(*adapter).max_initiator_queue_depth) {
    End(s, op, Code::kInvalidParameter6);
  } else {
    Create(Kind::kPair, s, op, o.adapter);
  }
}
void Model::Do(SessionId s, OpId op, const core::CreateConnectorOp& o) {
  Create(Kind::kConnector, s, op, o.adapter);
}
void Model::Do(SessionId s, OpId op, const core::CreateListenerOp& o) {
  Create(Kind::kListener, s, op, o.adapter);
}

void Model::Do(SessionId s, OpId op, const core::CreateSharedEndpointOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  const Session& session = sessions_.at(s);
  Code bad = CheckLocal(session, adapter->adapter, o.local, false);
  if (bad == Code::kSuccess) bad = MayBind(session, adapter->adapter, o.local);
  if (bad == Code::kSuccess) bad = Quota(session, Kind::kEndpoint);
  if (bad != Code::kSuccess) {
    End(s, op, bad);
    return;
  }
  Thing& e = Make(Kind::kEndpoint, s, adapter->adapter, adapter->id);
  e.op = op;
  const Code taken = Take(e, o.local);
  if (taken != Code::kSuccess || !Reserve(e)) Reserved(e, taken);
}

void Model::Do(SessionId s, OpId op, const core::CloseOp& o) {
  Thing* const thing = Own(s, o.handle, std::nullopt);
  if (thing == nullptr) {
    End(s, op, Code::kInvalidHandle);
    return;
  }
  thing->close_op = op;
  CloseThing(*thing, o.ndk);
}

void Model::Do(SessionId s, OpId op, const core::BindOp& o) {
  Thing* const t = Own(s, o.handle, std::nullopt);
  Code code = Code::kSuccess;
  if (t == nullptr || (t->kind != Kind::kConnector && t->kind != Kind::kListener)) {
    code = Code::kInvalidHandle;
  } else if (t->removed) {
    code = Code::kDeviceRemoved;
  } else if (!o.local.well_formed()) {
    code = Code::kInvalidAddress;
  } else if (t->kind == Kind::kListener) {
    if (t->bound || t->listening || t->hold) code = Code::kAddressAlreadyAssociated;
  } else {
    code = Judge(kBind, *t);
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  t->op = op;
  t->then_listen = false;
  code = CheckLocal(sessions_.at(s), t->adapter, o.local, t->kind == Kind::kListener);
  if (code == Code::kSuccess) code = MayBind(sessions_.at(s), t->adapter, o.local);
  if (code == Code::kSuccess) code = Take(*t, o.local);
  if (code != Code::kSuccess || !Reserve(*t)) Reserved(*t, code);
}

StatusCode Model::ConnectLocal(const Session& s, Thing& c, const core::ConnectOp& o, Thing* endpoint) {
  if (endpoint != nullptr) {
    c.hold = endpoint->hold;
    c.local = endpoint->local;
    c.through = endpoint->id;
  } else if (o.source) {
    if (const Code bad = CheckLocal(s, c.adapter, *o.source, false); bad != Code::kSuccess) return bad;
    if (const Code bad = MayBind(s, c.adapter, *o.source); bad != Code::kSuccess) return bad;
    if (const Code bad = Take(c, *o.source); bad != Code::kSuccess) return bad;
  }
  if (TupleTaken(c.adapter, c.local, c.remote, false, &c)) return Code::kAddressAlreadyExists;
  c.tuple = true;
  if (!policy_.MayConnect(s.who, c.remote).allowed) return Code::kAccessDenied;
  if (c.remote.unspecified() || c.remote.multicast()) {
    return settings_.bad_network_name ? Code::kBadNetworkName : Code::kNetworkUnreachable;
  }
  return c.remote.port() == 0 ? Code::kConnectionRefused : Code::kSuccess;
}

void Model::Do(SessionId s, OpId op, const core::ConnectOp& o) {
  Thing* const c = Own(s, o.connector, Kind::kConnector);
  Thing* const q = Own(s, o.queue_pair, Kind::kPair);
  Thing* const e = o.shared_endpoint ? Own(s, o.shared_endpoint, Kind::kEndpoint) : nullptr;
  const bool ndk = o.source.has_value() || o.shared_endpoint;
  Code code = Code::kSuccess;
  if (c == nullptr || c->reattaching || q == nullptr || (o.shared_endpoint && (e == nullptr || e->op != 0))) {
    code = Code::kInvalidHandle;
  } else if (c->removed || q->removed || (e != nullptr && e->removed)) {
    code = Code::kDeviceRemoved;
  } else if (o.source && o.shared_endpoint) {
    code = Code::kInvalidParameterMix;
  } else if (const Code data = DataStatus(o.private_data, o.private_data_length, Info(*c).max_caller_data);
             data != Code::kSuccess) {
    code = data;
  } else {
    const Address& from = o.source ? *o.source : e != nullptr ? e->local : c->local;
    const bool family = from.family() == Address::Family::kUnspecified || from.family() == o.remote.family();
    if ((o.source && !o.source->well_formed()) || !o.remote.well_formed() || !family) {
      code = Code::kInvalidAddress;
    } else if (q->adapter != c->adapter) {
      code = Code::kInvalidParameter1;
    } else if (e != nullptr && e->adapter != c->adapter) {
      code = Code::kInvalidParameter2;
    } else {
      code = Judge(ndk ? kConnectNdk : kConnectNd2, *c);
      if (code == Code::kSuccess && draining_) code = Code::kDeviceNotReady;
    }
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  Move(*c, C);
  c->passive = c->refusal_data = c->launched = false;
  c->data.clear();
  c->op = op;
  c->remote = o.remote;
  code = PairStatus(*q);
  if (code == Code::kSuccess) code = ConnectLocal(sessions_.at(s), *c, o, e);
  if (code != Code::kSuccess) return FailConnect(*c, code);
  c->pair = q->id;
  q->connector = c->id;
  c->offer = Offer(o.limits, Caps(*c));
  c->send_data = o.private_data;
  if (settings_.establish_timeout > Duration::zero()) c->establish = now_ + settings_.establish_timeout;
  Reserve(*c);
}

void Model::Do(SessionId s, OpId op, const core::CompleteConnectOp& o) {
  Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  if (const Code code = Judge(kComplete, *c); code != Code::kSuccess) {
    if (c->withdrawn_replied || c->expired) c->told = true;
    End(s, op, code);
    return;
  }
  bool waiting = false;
  const Thing* const other = TupleHolder(c->adapter, c->local, c->remote, true, &waiting);
  if (other != nullptr && !waiting && other->state == E) {
    Kill(*c);
    End(s, op, Code::kAddressAlreadyExists);
    return;
  }
  Move(*c, K);
  c->disconnect_event = o.disconnect_event;
  c->op = op;
}

void Model::Do(SessionId s, OpId op, const core::AcceptOp& o) {
  Thing* const c = Own(s, o.connector, Kind::kConnector);
  Thing* const q = Own(s, o.queue_pair, Kind::kPair);
  Code code = Code::kSuccess;
  if (c == nullptr || c->reattaching || q == nullptr) {
    code = Code::kInvalidHandle;
  } else if (c->removed || q->removed) {
    code = Code::kDeviceRemoved;
  } else if (const Code data = DataStatus(o.private_data, o.private_data_length, Info(*c).max_callee_data);
             data != Code::kSuccess) {
    code = data;
  } else if (q->adapter != c->adapter) {
    code = Code::kInvalidParameter1;
  } else {
    code = Judge(kAccept, *c);
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  if (const Code busy = PairStatus(*q); busy != Code::kSuccess) {
    ExpectReject(*c->cm, Detail::kPeerRejected);
    Kill(*c);
    End(s, op, busy);
    return;
  }
  c->pair = q->id;
  q->connector = c->id;
  c->limits = Granted(o.limits, c->offer, Caps(*c));
  c->disconnect_event = o.disconnect_event;
  Move(*c, A);
  c->op = op;
  if (settings_.establish_timeout > Duration::zero()) c->establish = now_ + settings_.establish_timeout;
  const auto* accept = Seen<core::CmAccept>([&](const core::CmAccept& a) { return a.id == *c->cm; });
  Check(accept != nullptr && accept->params.limits == c->limits &&
            accept->params.private_data == o.private_data,
        "b.4: what Accept sends is not what it must be");
}

void Model::Do(SessionId s, OpId op, const core::RejectOp& o) {
  Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  Code code = DataStatus(o.private_data, o.private_data_length, Info(*c).max_callee_data);
  if (code == Code::kSuccess) code = Judge(kReject, *c);
  if (code == Code::kSuccess) {
    ExpectReject(*c->cm, Detail::kPeerRejected);
    Kill(*c);
  }
  End(s, op, code);
}

void Model::Do(SessionId s, OpId op, const core::GetReadLimitsOp& o) {
  const Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kLimits, *c);
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.limits = c->limits;
}

void Model::Do(SessionId s, OpId op, const core::GetPrivateDataOp& o) {
  const Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kData, *c);
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.data = c->data;
}

void Model::Do(SessionId s, OpId op, const core::GetPeerAddressOp& o) {
  const Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kPeer, *c);
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.address = c->remote;
}

void Model::Do(SessionId s, OpId op, const core::GetLocalAddressOp& o) {
  const Thing* const t = Own(s, o.handle, std::nullopt);
  Code code = Code::kInvalidHandle;
  if (t != nullptr && t->removed) {
    code = Code::kDeviceRemoved;
  } else if (t != nullptr && t->kind == Kind::kConnector && !t->reattaching) {
    code = Judge(kLocal, *t);
  } else if (t != nullptr && t->kind == Kind::kListener) {
    code = t->listening ? Code::kSuccess : Code::kInvalidDeviceState;
  } else if (t != nullptr && t->kind == Kind::kEndpoint && t->op == 0) {
    code = Code::kSuccess;
  }
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.address = t->local;
}

void Model::Do(SessionId s, OpId op, const core::NotifyDisconnectOp& o) {
  Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  if (c->state == E) {
    c->notifies.push_back(op);
    return;
  }
  End(s, op, Judge(kNotify, *c));
}

void Model::Do(SessionId s, OpId op, const core::DisconnectOp& o) {
  Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kDisconnect, *c);
  if (code == Code::kSuccess && c->state == E) {
    c->op = op;
    return StartGoodbye(*c);
  }
  if (code == Code::kSuccess) Kill(*c);
  End(s, op, code);
}

void Model::Do(SessionId s, OpId op, const core::CancelOp& o) {
  Thing* const t = Own(s, o.handle, std::nullopt);
  if (t == nullptr) {
    End(s, op, Code::kInvalidHandle);
    return;
  }
  End(s, op, Code::kSuccess);
  if (t->kind == Kind::kListener) {
    if (t->op != 0) {
      Finish(*t, t->op, Code::kCanceled);
      Drop(*t);
      t->local = {};
      t->events = false;
    }
    return CancelGets(*t, Code::kCanceled);
  }
  if (t->kind != Kind::kConnector) return;
  switch (t->state) {
    case U:
      CancelAll(*t, Code::kCanceled);
      if (!t->reserving) return;
      Drop(*t);
      t->local = {};
      return;
    case C:
    case K:
    case A:
      CancelAll(*t, Code::kCanceled);
      return Kill(*t);
    case W:
    case E:
      return CancelAll(*t, Code::kCanceled);
    case D:
      return FinishGoodbye(*t, Code::kCanceled);
    default:
      return;
  }
}

void Model::Do(SessionId s, OpId op, const core::ListenOp& o) {
  Thing* const l = Own(s, o.listener, Kind::kListener);
  Code code = Code::kSuccess;
  if (l == nullptr) {
    code = Code::kInvalidHandle;
  } else if (l->removed) {
    code = Code::kDeviceRemoved;
  } else if (o.local && !o.local->well_formed()) {
    code = Code::kInvalidAddress;
  } else if (l->bound == o.local.has_value() || l->listening || l->op != 0) {
    code = Code::kInvalidDeviceState;
  } else {
    if (o.local) code = CheckLocal(sessions_.at(s), l->adapter, *o.local, true);
    const Address& local = o.local ? *o.local : l->local;
    if (code == Code::kSuccess && !policy_.MayListen(sessions_.at(s).who, local).allowed) {
      code = Code::kAccessDenied;
    }
    if (code == Code::kSuccess && draining_) code = Code::kDeviceNotReady;
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  l->asked_backlog = o.backlog;
  l->events = o.connect_events;
  if (!o.local) {
    StartListening(*l);
    End(s, op, Code::kSuccess).address = l->local;
    return;
  }
  l->op = op;
  l->then_listen = true;
  code = Take(*l, *o.local);
  if (code != Code::kSuccess || !Reserve(*l)) Reserved(*l, code);
}

void Model::Do(SessionId s, OpId op, const core::ControlConnectEventsOp& o) {
  Thing* const l = Own(s, o.listener, Kind::kListener);
  Code code = Code::kSuccess;
  if (l == nullptr) {
    code = Code::kInvalidHandle;
  } else if (l->removed) {
    code = Code::kDeviceRemoved;
  } else if (!l->listening) {
    code = Code::kInvalidDeviceState;
  } else {
    l->paused = o.pause;
  }
  End(s, op, code);
}

void Model::Do(SessionId s, OpId op, const core::GetConnectionRequestOp& o) {
  Thing* const l = Own(s, o.listener, Kind::kListener);
  Thing* const c = Own(s, o.connector, Kind::kConnector);
  Code code = Code::kSuccess;
  if (l == nullptr || c == nullptr || c->reattaching) {
    code = Code::kInvalidHandle;
  } else if (l->removed || c->removed) {
    code = Code::kDeviceRemoved;
  } else if (l->adapter != c->adapter) {
    code = Code::kInvalidParameter2;
  } else if (!l->listening || l->events) {
    code = Code::kInvalidDeviceState;
  } else {
    code = Judge(kGet, *c);
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  c->op = op;
  c->refusal_data = false;
  if (!l->requests.empty()) {
    const provider::InboundRequest oldest = l->requests.front();
    l->requests.pop_front();
    return Deliver(*c, *l, oldest);
  }
  Move(*c, W);
  c->waits_at = l->id;
  l->gets.push_back(c->id);
}

void Model::Do(SessionId s, OpId op, const core::TransportReportOp& o) {
  using What = core::TransportReportOp::What;
  Thing* const c = ByHandle(o.connector);
  if (c == nullptr || c->kind != Kind::kConnector || c->session != s || c->reattaching) {
    End(s, op, Code::kInvalidHandle);
    return;
  }
  End(s, op, Code::kSuccess);
  if (o.what == What::kPrepared) {
    if (c->cm && std::exchange(c->preparing, false)) {
      Check(Seen<core::CmPrepared>([&](const core::CmPrepared& a) { return a.id == *c->cm; }) != nullptr,
            "the wire did not learn that the queue pair is prepared");
    }
    return;
  }
  if (!Client(*c) && o.what != What::kPeerClosed) return;
  if (c->state == E && o.what == What::kPeerClosed) return PeerClosed(*c);
  if (c->state == E) {
    // The client disconnected while the broker was away, so the goodbye starts at once.
    StartGoodbye(*c);
    return FinishGoodbye(*c, Code::kSuccess);
  }
  if (c->state != D || o.what == What::kPeerClosed) return;
  FinishGoodbye(*c, o.status == Code::kIoTimeout ? Code::kIoTimeout : Code::kSuccess);
}

// Only with the proof of its hand-over, only in time, and only where the rules still allow it.
StatusCode Model::MayReattach(const Session& s, std::size_t adapter, const core::ReattachOp& o) const {
  if (!options_.prove) return Code::kAccessDenied;
  const Bytes proof = options_.prove({Info(adapter).name, o.local, o.remote, o.passive, s.who.uid});
  const auto user = user_returns_until_.find(s.who.uid);
  const bool in_time =
      now_ <= options_.leases_until || (user != user_returns_until_.end() && now_ <= user->second);
  const bool allowed =
      o.passive ? policy_.MayListen(s.who, o.local).allowed : policy_.MayConnect(s.who, o.remote).allowed;
  return o.proof == proof && in_time && allowed ? Code::kSuccess : Code::kAccessDenied;
}

void Model::Do(SessionId s, OpId op, const core::ReattachOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  Thing* const q = Own(s, o.queue_pair, Kind::kPair);
  const Session& session = sessions_.at(s);
  Code code = Code::kSuccess;
  if (q == nullptr) {
    code = Code::kInvalidHandle;
  } else if (q->removed) {
    code = Code::kDeviceRemoved;
  } else if (!Client(*adapter)) {
    code = Code::kNotSupported;
  } else if (q->adapter != adapter->adapter) {
    code = Code::kInvalidParameter2;
  } else {
    code = CheckLocal(session, adapter->adapter, o.local, false);
    const bool remote = o.remote.well_formed() && o.remote.family() == o.local.family() &&
                        !o.remote.unspecified() && !o.remote.multicast();
    if (code == Code::kSuccess && (!remote || o.local.port() == 0)) code = Code::kInvalidAddress;
    if (code == Code::kSuccess) code = PairStatus(*q);
    if (code == Code::kSuccess) code = MayReattach(session, adapter->adapter, o);
    if (code == Code::kSuccess && TupleTaken(adapter->adapter, o.local, o.remote, o.passive, nullptr)) {
      code = Code::kAddressAlreadyExists;
    }
    if (code == Code::kSuccess) code = Quota(session, Kind::kConnector);
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  Thing& c = Make(Kind::kConnector, s, adapter->adapter, adapter->id);
  c.op = op;
  c.reattaching = true;
  const Key key{adapter->adapter, o.local};
  const auto held = ports_.find(key);
  const bool rejoins = held != ports_.end() && held->second.session == s && !held->second.reserving &&
                       (held->second.reattached ||
                        (o.passive && held->second.kind == Kind::kListener && !held->second.closing) ||
                        (!o.passive && held->second.kind == Kind::kEndpoint && !held->second.closing));
  if (rejoins) {
    c.local = o.local;
    c.hold = key;
  } else {
    code = Take(c, o.local);
  }
  if (code == Code::kSuccess) {
    c.remote = o.remote;
    c.passive = o.passive;
    c.limits = Offer(o.limits, Caps(c));
    c.pair = q->id;
    q->connector = c.id;
    c.tuple = true;
    if (Reserve(c)) return;
  }
  Reserved(c, code);
}

}  // namespace nd::sim
