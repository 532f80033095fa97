// SPDX-License-Identifier: Apache-2.0
// The results of Connect, CompleteConnect, Accept and Reject, and of the end of a connection.
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
}  // namespace nd::sim
