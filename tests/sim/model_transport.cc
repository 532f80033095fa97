// SPDX-License-Identifier: Apache-2.0
// The results of what the library reports of its transports: events of queue pairs, and connections that a
// former broker made.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using Code = StatusCode;

}  // namespace

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
  const bool makes = !o.queue_pair;
  Thing* q = makes ? nullptr : Own(s, o.queue_pair, Kind::kPair);
  const Session& session = sessions_.at(s);
  Code code = Code::kSuccess;
  if (!makes && q == nullptr) {
    code = Code::kInvalidHandle;
  } else if (!makes && q->removed) {
    code = Code::kDeviceRemoved;
  } else if (!Client(*adapter)) {
    code = Code::kNotSupported;
  } else if (!makes && q->adapter != adapter->adapter) {
    code = Code::kInvalidParameter2;
  } else if (makes && o.receive_depth > Info(*adapter).max_receive_queue_depth) {
    code = Code::kInvalidParameter5;
  } else if (makes && o.initiator_depth > Info(*adapter).max_initiator_queue_depth) {
    code = Code::kInvalidParameter6;
  } else {
    code = CheckLocal(session, adapter->adapter, o.local, false);
    const bool remote = o.remote.well_formed() && o.remote.family() == o.local.family() &&
                        !o.remote.unspecified() && !o.remote.multicast();
    if (code == Code::kSuccess && (!remote || o.local.port() == 0)) code = Code::kInvalidAddress;
    if (code == Code::kSuccess && !makes) code = PairStatus(*q);
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
  c.made_pair = makes;
  if (makes && (code = Quota(session, Kind::kPair)) != Code::kSuccess) return Reserved(c, code);
  if (makes) q = &Make(Kind::kPair, s, adapter->adapter, adapter->id);
  c.pair = q->id;
  q->connector = c.id;
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
    c.tuple = true;
    if (Reserve(c)) return;
  }
  Reserved(c, code);
}

}  // namespace nd::sim
