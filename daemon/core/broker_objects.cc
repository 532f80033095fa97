// SPDX-License-Identifier: Apache-2.0
// Creation and destruction of objects, and the operations of adapters.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
namespace {

std::optional<Resource> ResourceOf(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kQueuePair:
      return Resource::kQueuePairs;
    case ObjectKind::kConnector:
      return Resource::kConnectors;
    case ObjectKind::kListener:
      return Resource::kListeners;
    case ObjectKind::kSharedEndpoint:
      return Resource::kSharedEndpoints;
    case ObjectKind::kAdapter:
      break;
  }
  return std::nullopt;
}

// An adapter of another network is also found by the name of the host's adapter that it stands for.
bool IsNamed(const AdapterState& adapter, const std::string& name) {
  const std::string& own = adapter.description.info.name;
  return own == name || (adapter.description.network != 0 && own.starts_with(name + "@"));
}

std::string NoAddressHere(const Identity& who, const AdapterInfo& adapter) {
  return "Adapter " + adapter.name + " has no address in the network namespace of this process." +
         (who.network_problem.empty() ? "" : " ") + who.network_problem;
}

Status NoHandles() {
  return {StatusCode::kInsufficientResources, "The broker has no free handles left."};
}

}  // namespace

Object* Broker::Impl::FindAny(Handle handle) {
  std::unique_ptr<Object>* const slot = objects_.Find(handle);
  return slot == nullptr ? nullptr : slot->get();
}

Connector& Broker::Impl::ConnectorAt(Handle handle) {
  Connector* const c = Find<Connector>(handle);
  ND_CORE_CHECK(c != nullptr);
  return *c;
}

std::optional<Quota::Token> Broker::Impl::Charge(const Session& s, Resource resource, Status* why) {
  const std::uint32_t uid = UserOf(s.who());
  const auto limit = LimitOf(policy_.LimitsOf(s.who()), resource);
  std::optional<Quota::Token> charge = quota_.Charge(uid, resource, limit, why);
  if (charge || quota_.SparesOf(uid, resource) == 0) return charge;
  WithdrawSpares(uid);
  return quota_.Charge(uid, resource, limit, why);
}

template <typename T>
T* Broker::Impl::Create(Session& s, const OpenedAdapter& adapter, Status* why, Spare* spare) {
  auto object = std::make_unique<T>();
  if (spare != nullptr) {
    spare->charge.Use();
    object->charge = std::move(spare->charge);
    --spares_;
  } else if (const std::optional<Resource> resource = ResourceOf(object->kind)) {
    std::optional<Quota::Token> charge = Charge(s, *resource, why);
    if (!charge) return nullptr;
    object->charge = std::move(*charge);
  }
  if (spare == nullptr && spares_ > 0 && objects_.room() <= spares_) {
    WithdrawSpares();
    if (objects_.room() <= spares_) {
      *why = NoHandles();
      return nullptr;
    }
  }
  T* const raw = object.get();
  raw->session = s.id;
  raw->adapter_no = adapter.adapter_no;
  raw->created = now_;
  // The adapter may be a temporary for one that is being opened; it then has no handle.
  raw->adapter = adapter.handle;
  const Handle handle = objects_.Insert(std::move(object));
  if (!handle) {
    *why = NoHandles();
    return nullptr;
  }
  raw->handle = handle;
  raw->sequence = next_sequence_++;
  ++adapters_[raw->adapter_no].objects;
  s.Of(raw->kind).insert({raw->sequence, raw->handle});
  if (Object* const antecedent = FindAny(raw->adapter)) ++antecedent->successors;
  return raw;
}
template Connector* Broker::Impl::Create<Connector>(Session&, const OpenedAdapter&, Status*, Spare*);
template SharedEndpoint* Broker::Impl::Create<SharedEndpoint>(Session&, const OpenedAdapter&, Status*,
                                                              Spare*);

void Broker::Impl::Destroy(Object& object) {
  const Handle handle = object.handle, adapter = object.adapter;
  const SessionId session = object.session;
  Session& s = SessionOf(session);
  Finish(session, object.close_op, {});
  s.Of(object.kind).erase(object.sequence);
  if (object.made_by != 0) s.made_by.erase(object.made_by);
  AdapterState& state = StateOf(object);
  ND_CORE_CHECK(state.objects > 0);
  --state.objects;
  const bool erased = objects_.Erase(handle);
  ND_CORE_CHECK(erased);
  if (adapter) DropSuccessor(adapter);
}

void Broker::Impl::DropSuccessor(Handle antecedent) {
  Object* const object = FindAny(antecedent);
  ND_CORE_CHECK(object != nullptr && object->successors > 0);
  --object->successors;
  MaybeFinishClose(antecedent);
}

void Broker::Impl::MaybeFinishClose(Handle handle) {
  Object* const object = FindAny(handle);
  if (object == nullptr || !object->closing || object->successors > 0) return;
  switch (object->kind) {
    case ObjectKind::kListener:
      ports_.Drop(&static_cast<Listener*>(object)->claim);
      break;
    case ObjectKind::kSharedEndpoint:
      ports_.Drop(&static_cast<SharedEndpoint*>(object)->claim);
      break;
    case ObjectKind::kQueuePair: {
      QueuePair& q = static_cast<QueuePair&>(*object);
      ND_CORE_CHECK(!q.connector);
      if (Session& s = SessionOf(q.session); !s.closed) s.free_slots.insert(q.counter_slot);
      break;
    }
    default:
      ND_CORE_CHECK(object->kind == ObjectKind::kAdapter);  // The state machine of a connector ends it.
      break;
  }
  Destroy(*object);
}

OpenedAdapter* Broker::Impl::UsableAdapter(Session& s, Pending& p, Handle handle) {
  OpenedAdapter* const adapter = FindOwn<OpenedAdapter>(s, handle);
  if (adapter == nullptr) {
    Finish(s.id, p, BadHandle());
    return nullptr;
  }
  if (Gone(adapters_[adapter->adapter_no])) {
    Finish(s.id, p, AdapterGone());
    return nullptr;
  }
  return adapter;
}

Status Broker::Impl::CheckLocal(const Session& s, const AdapterInfo& adapter, const Address& local,
                                bool allow_unspecified) const {
  if (!s.who().foreign_network || !local.well_formed()) {
    return CheckLocalAddress(adapter, local, allow_unspecified);
  }
  // The same message for every address, so that this process cannot find out the addresses of the host.
  return {StatusCode::kInvalidAddress, NoAddressHere(s.who(), adapter)};
}

bool Broker::Impl::Sees(const Session& s, const AdapterState& adapter) {
  return adapter.present && adapter.description.network == s.who().network;
}

AdapterInfo Broker::Impl::SeenBy(const Session& s, const AdapterInfo& adapter) {
  AdapterInfo seen = adapter;
  if (s.who().foreign_network) seen.addresses.clear();
  return seen;
}

void Broker::Impl::Do(Session& s, Pending p, const ListAdaptersOp&) {
  Reply reply;
  for (const AdapterState& a : adapters_) {
    if (Sees(s, a) && a.description.problem.ok()) reply.adapters.push_back(SeenBy(s, a.description.info));
  }
  Finish(s.id, p, {}, std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const OpenAdapterOp& op) {
  const bool by_address = op.name.empty() && op.local.family() != Address::Family::kUnspecified;
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    const AdapterState& a = adapters_[no];
    if (!Sees(s, a)) continue;
    if (!op.name.empty() && !IsNamed(a, op.name)) continue;
    if (by_address && !CheckLocal(s, a.description.info, op.local, false).ok()) continue;
    if (!a.description.problem.ok()) {
      if (op.name.empty()) continue;  // Another adapter may be usable.
      Finish(s.id, p, a.description.problem);
      return;
    }
    if (!a.enabled) {
      Finish(s.id, p,
             {StatusCode::kDeviceNotReady, "Adapter " + a.description.info.name + " is disabled.",
              Detail::kAdapterDisabled});
      return;
    }
    if (s.Count(ObjectKind::kAdapter) >= kMaxOpenAdapters) {
      Finish(
          s.id, p,
          {StatusCode::kInsufficientResources, "This session has opened too many adapters.", Detail::kQuota});
      return;
    }
    OpenedAdapter self;
    self.adapter_no = no;
    Status why;
    const OpenedAdapter* const opened = Create<OpenedAdapter>(s, self, &why);
    if (opened == nullptr) {
      Finish(s.id, p, std::move(why));
      return;
    }
    Reply reply;
    reply.handle = opened->handle;
    reply.adapters.push_back(SeenBy(s, a.description.info));
    Finish(s.id, p, {}, std::move(reply));
    return;
  }
  Finish(s.id, p,
         {StatusCode::kInvalidParameter,
          op.name.empty() ? (by_address ? "No adapter has the address " + op.local.IpToString() + "."
                                        : std::string("There is no adapter."))
                          : "There is no adapter named " + op.name.substr(0, 64) + "."});
}

void Broker::Impl::Do(Session& s, Pending p, const ResolveAddressOp& op) {
  OpenedAdapter* const adapter = UsableAdapter(s, p, op.adapter);
  if (adapter == nullptr) return;
  if (Status shape = CheckDestinationShape(op.remote, {}); !shape.ok()) {
    Finish(s.id, p, std::move(shape));
    return;
  }
  const AdapterInfo& info = StateOf(*adapter).description.info;
  if (s.who().foreign_network) {
    Finish(s.id, p, {StatusCode::kNetworkUnreachable, NoAddressHere(s.who(), info)});
    return;
  }
  Reply reply;
  if (resolve_) {
    Result<Address> local = resolve_(info.name, op.remote);
    if (!local.ok()) {
      Finish(s.id, p, local.status());
      return;
    }
    reply.address = local->WithPort(0);
    Finish(s.id, p, {}, std::move(reply));
    return;
  }
  for (const Address& own : info.addresses) {
    if (own.family() != op.remote.family()) continue;
    reply.address = own.WithPort(0);
    Finish(s.id, p, {}, std::move(reply));
    return;
  }
  Finish(s.id, p,
         {StatusCode::kNetworkUnreachable, "Adapter " + info.name + " has no address of that family."});
}

void Broker::Impl::Do(Session& s, Pending p, const CheckAddressOp& op) {
  OpenedAdapter* const adapter = UsableAdapter(s, p, op.adapter);
  if (adapter == nullptr) return;
  const auto family = op.local.family();
  const bool known = family == Address::Family::kIpv4 || family == Address::Family::kIpv6;
  if (known && !op.local.well_formed()) {
    Finish(s.id, p, {StatusCode::kInvalidParameter2, "The address is shorter than its family needs."});
    return;
  }
  Finish(s.id, p, CheckLocal(s, StateOf(*adapter).description.info, op.local, false));
}

std::uint32_t Broker::Impl::NextCounterSlot(SessionId session) const {
  const Session* const s = sessions_.Find(session);
  return s == nullptr ? 0 : s->NextSlot();
}

// Numbered as the fields of nd::QueuePairOptions.
Status Broker::Impl::CheckDepths(const AdapterInfo& adapter, std::uint32_t receive, std::uint32_t initiator) {
  if (receive > adapter.max_receive_queue_depth) {
    return {StatusCode::kInvalidParameter5,
            "receive_depth is above the adapter's " + std::to_string(adapter.max_receive_queue_depth) + "."};
  }
  if (initiator > adapter.max_initiator_queue_depth) {
    return {StatusCode::kInvalidParameter6, "initiator_depth is above the adapter's " +
                                                std::to_string(adapter.max_initiator_queue_depth) + "."};
  }
  return {};
}

QueuePair* Broker::Impl::MakeQueuePair(Session& s, const OpenedAdapter& adapter, const CreateQueuePairOp& op,
                                       Status* why, Spare* spare) {
  QueuePair* const q = Create<QueuePair>(s, adapter, why, spare);
  if (q == nullptr) return nullptr;
  q->device_number = op.device_number;
  q->receive_depth = op.receive_depth;
  q->initiator_depth = op.initiator_depth;
  q->counter_slot = spare != nullptr ? spare->counter_slot : s.TakeSlot();
  return q;
}

void Broker::Impl::Do(Session& s, Pending p, const CreateQueuePairOp& op) {
  Spare* const spare = FindSpare(s, SpareKind::kQueuePair, op.spare);
  OpenedAdapter* const adapter = AdapterFor(s, p, op.adapter, SpareKind::kQueuePair, spare);
  if (adapter == nullptr) return;
  const AdapterInfo& info = StateOf(*adapter).description.info;
  Status why = CheckDepths(info, op.receive_depth, op.initiator_depth);
  QueuePair* const q = why.ok() ? MakeQueuePair(s, *adapter, op, &why, spare) : nullptr;
  if (q == nullptr) {
    if (spare != nullptr && spare->charge) ReleaseSpare(s, SpareKind::kQueuePair, *spare);
    Finish(s.id, p, std::move(why));
    return;
  }
  Reply reply;
  reply.handle = q->handle;
  reply.counter_slot = q->counter_slot;
  if (op.spare != 0) NameObject(s, *q, p.op_id);
  q->removed = Gone(StateOf(*q));
  OfferSpares(s);
  Finish(s.id, p, {}, std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const CreateConnectorOp& op) {
  Spare* const spare = FindSpare(s, SpareKind::kConnector, op.spare);
  OpenedAdapter* const adapter = AdapterFor(s, p, op.adapter, SpareKind::kConnector, spare);
  if (adapter == nullptr) return;
  Status why;
  Connector* const c = Create<Connector>(s, *adapter, &why, spare);
  if (c == nullptr) {
    Finish(s.id, p, std::move(why));
    return;
  }
  Reply reply;
  reply.handle = c->handle;
  if (op.spare != 0) NameObject(s, *c, p.op_id);
  if (Gone(StateOf(*c))) RemoveObject(*c);
  OfferSpares(s);
  Finish(s.id, p, {}, std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const CreateListenerOp& op) {
  OpenedAdapter* const adapter = UsableAdapter(s, p, op.adapter);
  if (adapter == nullptr) return;
  Status why;
  const Listener* const l = Create<Listener>(s, *adapter, &why);
  Reply reply;
  if (l != nullptr) reply.handle = l->handle;
  Finish(s.id, p, std::move(why), std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const CreateSharedEndpointOp& op) {
  OpenedAdapter* const adapter = UsableAdapter(s, p, op.adapter);
  if (adapter == nullptr) return;
  if (Status bad = CheckLocal(s, StateOf(*adapter).description.info, op.local, false); !bad.ok()) {
    Finish(s.id, p, std::move(bad));
    return;
  }
  if (Status denied = CheckBind(s, *adapter, op.local); !denied.ok()) {
    Finish(s.id, p, std::move(denied));
    return;
  }
  Status why;
  SharedEndpoint* const e = Create<SharedEndpoint>(s, *adapter, &why);
  if (e == nullptr) {
    Finish(s.id, p, std::move(why));
    return;
  }
  e->op = p;
  const PortTaker taker = TakerOf(s, *e);
  Status taken = ports_.Take(taker, op.local, &e->claim, &e->local);
  if (taken.ok() && ports_.AskHost(taker, &e->claim)) return;
  Reserved(*e, taken);
}

Connector* Broker::Impl::UseConnector(Session& s, Pending& p, Handle handle) {
  Connector* const c = FindOwn<Connector>(s, handle);
  if (c != nullptr && !c->reattaching && !c->removed) return c;
  Finish(s.id, p, c == nullptr || c->reattaching ? BadHandle("connector") : AdapterGone());
  return nullptr;
}

Listener* Broker::Impl::UseListener(Session& s, Pending& p, Handle handle) {
  Listener* const l = FindOwn<Listener>(s, handle);
  if (l != nullptr && !l->removed) return l;
  Finish(s.id, p, l == nullptr ? BadHandle("listener") : AdapterGone());
  return nullptr;
}

}  // namespace nd::core
