// SPDX-License-Identifier: Apache-2.0
// Reattach: a connection that survived the previous broker returns to the tables, without any wire message.
//
// The operation may make the queue pair of the connection, so that each connection costs one operation. It
// makes none if the connection does not come back.
//
// Such connections of one session may share a local port, because they came through one listener or shared
// endpoint of the previous broker; their 4-tuples differ.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/impl.h"
#include "daemon/core/read_limits.h"

namespace nd::core {

ConnectionFacts Broker::Impl::FactsOf(const Connector& c) {
  return {StateOf(c).description.info.name, c.local, c.remote, c.passive, UserOf(SessionOf(c.session).who())};
}

Status Broker::Impl::CheckReattach(const Session& s, const std::string& adapter, const ReattachOp& op) const {
  const ConnectionFacts facts{adapter, op.local, op.remote, op.passive, UserOf(s.who())};
  if (!prove_ || !SameProof(op.proof, prove_(facts))) {
    return {StatusCode::kAccessDenied, "Nothing shows that uid " + std::to_string(UserOf(s.who())) +
                                           " had a connection from " + op.local.ToString() + " to " +
                                           op.remote.ToString() +
                                           "; the proof of its hand-over was expected."};
  }
  const auto user = user_returns_until_.find(UserOf(s.who()));
  const bool in_time =
      now_ <= connections_return_until_ || (user != user_returns_until_.end() && now_ <= user->second);
  if (!in_time) {
    return {StatusCode::kAccessDenied,
            "The time of reclaim-grace in [broker], in which connections come back, is over; the connection "
            "goes on without the broker."};
  }
  const Verdict verdict =
      op.passive ? policy_.MayListen(s.who(), op.local) : policy_.MayConnect(s.who(), op.remote);
  if (!verdict.allowed) return {StatusCode::kAccessDenied, verdict.reason, Detail::kPolicy};
  return {};
}

void Broker::Impl::LetConnectionsReturn(const Session& s) {
  absl::erase_if(user_returns_until_, [this](const auto& user) { return user.second < now_; });
  user_returns_until_[UserOf(s.who())] = now_ + grace_;
}

void Broker::Impl::Do(Session& s, Pending p, const ReattachOp& op) {
  OpenedAdapter* const adapter = UsableAdapter(s, p, op.adapter);
  if (adapter == nullptr) return;
  const bool makes = !op.queue_pair;
  QueuePair* q = makes ? nullptr : FindOwn<QueuePair>(s, op.queue_pair);
  const AdapterState& state = StateOf(*adapter);
  const AdapterInfo& info = state.description.info;
  Status bad;
  if (!makes && q == nullptr) {
    bad = BadHandle("queue pair");
  } else if (!makes && q->removed) {
    bad = AdapterGone();
  } else if (!state.description.client_disconnects) {
    bad = Status(StatusCode::kNotSupported, "Connections of this adapter end with the broker.");
  } else if (!makes && q->adapter_no != adapter->adapter_no) {
    bad = Status(StatusCode::kInvalidParameter2, "The queue pair belongs to another adapter.");
  } else if (Status depths = CheckDepths(info, op.receive_depth, op.initiator_depth); makes && !depths.ok()) {
    bad = std::move(depths);
  } else if (Status local = CheckLocal(s, info, op.local, false); !local.ok()) {
    bad = std::move(local);
  } else if (Status remote = CheckDestinationShape(op.remote, op.local); !remote.ok()) {
    bad = std::move(remote);
  } else if (op.local.port() == 0 || op.remote.unspecified() || op.remote.multicast()) {
    bad = Status(StatusCode::kInvalidAddress, "An established connection has no such address.");
  } else if (Status busy = makes ? Status() : CheckQueuePair(*q); !busy.ok()) {
    bad = std::move(busy);
  } else if (Status refused = CheckReattach(s, info.name, op); !refused.ok()) {
    bad = std::move(refused);
  }
  if (!bad.ok()) {
    Finish(s.id, p, std::move(bad));
    return;
  }
  const Role role = op.passive ? Role::kPassive : Role::kActive;
  const TupleKey tuple{adapter->adapter_no, op.local, op.remote};
  if (tuples_.Conflict(tuple, role, settings_.allow_same_owner_bind_sharing).attempt != 0) {
    Finish(s.id, p,
           {StatusCode::kAddressAlreadyExists, "A connection between these addresses exists already."});
    return;
  }
  Status why;
  Connector* const c = Create<Connector>(s, *adapter, &why);
  if (c == nullptr) {
    Finish(s.id, p, std::move(why));
    return;
  }
  c->op = p;
  c->reattaching = true;
  if (makes) {
    const CreateQueuePairOp pair{op.adapter, op.receive_depth, op.initiator_depth, op.device_number};
    q = MakeQueuePair(s, *adapter, pair, &why);
    c->made_queue_pair = true;
  }
  if (q == nullptr) {
    Reserved(*c, std::move(why));
    return;
  }
  c->queue_pair = q->handle;
  q->connector = c->handle;
  const PortTaker taker = TakerOf(s, *c);
  Status taken = ports_.TakeBack(taker, op.passive, op.local, &c->claim, &c->local);
  if (taken.ok()) {
    c->remote = op.remote;
    c->passive = op.passive;
    c->attempt = next_attempt_++;
    c->limits = CapOffer(op.limits, {info.max_inbound_read_limit, info.max_outbound_read_limit});
    tuples_.Put(tuple, role, {c->attempt, c->handle});
    c->has_tuple = true;
    if (ports_.AskHost(taker, &c->claim)) return;
  }
  Reserved(*c, std::move(taken));
}

}  // namespace nd::core
