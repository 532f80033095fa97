// SPDX-License-Identifier: Apache-2.0
// A connection that outlived the previous broker comes back into the tables, with no wire involved.
//
// Such connections of one session may share a local port: they came through one listener or one shared
// endpoint, which that broker had made sure of, and their 4-tuples differ.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/impl.h"
#include "daemon/core/read_limits.h"

namespace nd::core {

void Broker::Impl::Do(Session& s, Pending p, const ReattachOp& op) {
  OpenedAdapter* const adapter = UsableAdapter(s, p, op.adapter);
  if (adapter == nullptr) return;
  QueuePair* const q = FindOwn<QueuePair>(s, op.queue_pair);
  const AdapterState& state = StateOf(*adapter);
  const AdapterInfo& info = state.description.info;
  Status bad;
  if (q == nullptr) {
    bad = Status(StatusCode::kInvalidHandle, "The handle names no open queue pair of this session.");
  } else if (q->removed) {
    bad = Status(StatusCode::kDeviceRemoved, "The adapter was removed or disabled.");
  } else if (!state.description.client_disconnects) {
    bad = Status(StatusCode::kNotSupported, "Connections of this adapter end with the broker.");
  } else if (q->adapter_no != adapter->adapter_no) {
    bad = Status(StatusCode::kInvalidParameter2, "The queue pair belongs to another adapter.");
  } else if (Status local = CheckLocal(s, info, op.local, false); !local.ok()) {
    bad = std::move(local);
  } else if (Status remote = CheckDestinationShape(op.remote, op.local); !remote.ok()) {
    bad = std::move(remote);
  } else if (op.local.port() == 0 || op.remote.unspecified() || op.remote.multicast()) {
    bad = Status(StatusCode::kInvalidAddress, "An established connection has no such address.");
  } else if (Status busy = CheckQueuePair(*q); !busy.ok()) {
    bad = std::move(busy);
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
  const PortKey key = PortKey::Of(adapter->adapter_no, op.local);
  PortEntry* const held = ports_.Find(key);
  // A listener that came back first has the port already; its old connections rejoin it.
  const bool mine =
      held != nullptr && held->owner.session == s.id &&
      !reservations_.contains(static_cast<std::uint64_t>(held->endpoint)) &&
      (held->reattached || (op.passive && held->kind == PortKind::kListener && !held->closing) ||
       (!op.passive && held->kind == PortKind::kSharedEndpoint && !held->closing));
  Status taken;
  if (mine) {
    c->local = op.local;
    c->claim.key = key;
    ports_.AddReference(key);
  } else {
    taken = TakePort(s, *c, c->claim, op.local, PortKind::kConnector, &c->local);
    // Where it shares the port of a live holder the port stays that holder's.
    if (taken.ok() && ports_.Find(key)->references == 1) ports_.Find(key)->reattached = true;
  }
  if (taken.ok()) {
    c->remote = op.remote;
    c->passive = op.passive;
    c->attempt = next_attempt_++;
    c->limits = CapOffer(op.limits, {info.max_inbound_read_limit, info.max_outbound_read_limit});
    c->queue_pair = q->handle;
    q->connector = c->handle;
    tuples_.Put(tuple, role, {c->attempt, c->handle});
    c->has_tuple = true;
    if (Reserve(*c, c->claim)) return;
  }
  Reserved(*c, std::move(taken));
}

}  // namespace nd::core
