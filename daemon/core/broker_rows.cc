// SPDX-License-Identifier: Apache-2.0
// The rows for ndctl. Each list walks every object, so only administrators ask for it.
#include <algorithm>
#include <utility>

#include "daemon/core/impl.h"

namespace nd::core {
namespace {

const char* StateName(const QueuePair& q, const Connector* c) {
  if (c != nullptr && (c->state == ConnectorState::kConnected)) return "connected";
  if (q.spent) return "disconnected";
  return c != nullptr && c->recording ? "connecting" : "unconnected";
}

}  // namespace

std::vector<const Object*> Broker::Impl::AllObjects(std::optional<ObjectKind> kind) const {
  std::vector<const Object*> all;
  objects_.ForEach([&](Handle, const std::unique_ptr<Object>& object) {
    if (!kind || object->kind == *kind) all.push_back(object.get());
  });
  const auto earlier = [](const Object* a, const Object* b) { return a->sequence < b->sequence; };
  // Handles are usually in order already, and the check costs a tenth of sorting.
  if (!std::is_sorted(all.begin(), all.end(), earlier)) std::sort(all.begin(), all.end(), earlier);
  return all;
}

std::vector<AdapterRow> Broker::Impl::Adapters() const {
  std::vector<AdapterRow> rows;
  std::vector<std::uint32_t> connections(adapters_.size());
  objects_.ForEach([&](Handle, const std::unique_ptr<Object>& object) {
    if (object->kind != ObjectKind::kConnector) return;
    const ConnectorState state = static_cast<const Connector&>(*object).state;
    if (state == ConnectorState::kConnected) ++connections[object->adapter_no];
  });
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    const AdapterState& a = adapters_[no];
    if (!a.present) continue;
    rows.push_back(
        {a.description, a.enabled, connections[no], a.listeners, ports_.space().EphemeralUsed(no)});
  }
  return rows;
}

std::vector<ListenerRow> Broker::Impl::Listeners() const {
  std::vector<ListenerRow> rows;
  for (const Object* object : AllObjects(ObjectKind::kListener)) {
    const Listener& l = static_cast<const Listener&>(*object);
    const bool listening = l.state == Listener::State::kListening;
    ListenerRow row;
    row.id = l.handle;
    row.local = l.local;
    row.state = l.closing                            ? "closing"
                : listening && l.queue.paused()      ? "paused"
                : listening                          ? "listening"
                : l.state == Listener::State::kBound ? "bound"
                                                     : "unbound";
    row.session = l.session;
    row.owner = sessions_.At(l.session).who();
    row.adapter = StateOf(l).description.info.name;
    row.backlog_limit = l.queue.limit();
    row.backlog_used = l.queue.backlog();
    row.waiting_gets = l.queue.gets();
    row.accepted = l.accepted;
    row.refused = l.refused;
    row.created = l.created;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ConnectionRow> Broker::Impl::Connections() const {
  std::vector<ConnectionRow> rows;
  std::size_t count = 0;
  for (const auto& [id, s] : sessions_.all()) count += s.Count(ObjectKind::kConnector);
  rows.reserve(count);
  for (const Object* object : AllObjects(ObjectKind::kConnector)) {
    const Connector& c = static_cast<const Connector&>(*object);
    ConnectionRow row;
    row.id = c.handle;
    row.state = c.state;
    row.local = c.local;
    row.peer = c.remote;
    row.session = c.session;
    row.owner = sessions_.At(c.session).who();
    row.adapter = StateOf(c).description.info.name;
    row.passive = c.passive;
    row.cm_id = c.cm.value_or(CmId{});
    row.limits = c.limits;
    row.created = c.created;
    if (const auto* slot = objects_.Find(c.queue_pair); slot != nullptr) {
      row.has_queue_pair = true;
      row.counter_slot = static_cast<const QueuePair&>(**slot).counter_slot;
    }
    row.through = c.through;
    row.phases = c.phases;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<QueuePairRow> Broker::Impl::QueuePairs() const {
  std::vector<QueuePairRow> rows;
  for (const Object* object : AllObjects(ObjectKind::kQueuePair)) {
    const QueuePair& q = static_cast<const QueuePair&>(*object);
    QueuePairRow row;
    row.id = q.handle;
    row.connection = q.connector;
    row.session = q.session;
    row.owner = sessions_.At(q.session).who();
    row.adapter = StateOf(q).description.info.name;
    row.receive_depth = q.receive_depth;
    row.initiator_depth = q.initiator_depth;
    row.device_number = q.device_number;
    row.counter_slot = q.counter_slot;
    row.state = StateName(
        q, q.connector ? static_cast<const Connector*>(objects_.Find(q.connector)->get()) : nullptr);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<EndpointRow> Broker::Impl::Endpoints() const {
  std::vector<EndpointRow> rows;
  for (const Object* object : AllObjects(ObjectKind::kSharedEndpoint)) {
    const SharedEndpoint& e = static_cast<const SharedEndpoint&>(*object);
    rows.push_back({e.handle, e.local, e.closing, e.session, sessions_.At(e.session).who(),
                    StateOf(e).description.info.name, e.successors});
  }
  return rows;
}

std::vector<PortRow> Broker::Impl::Ports() const {
  std::vector<std::pair<std::uint64_t, PortRow>> rows;
  for (const auto& [key, entry] : ports_.space().entries()) {
    PortRow row;
    row.local = key.local();
    row.adapter = adapters_[key.adapter].description.info.name;
    row.kind = Name(entry.kind);
    const auto* slot = objects_.Find(entry.holder);
    const Object* const holder = slot == nullptr ? nullptr : slot->get();
    const bool dead =
        holder == nullptr || (holder->kind == ObjectKind::kConnector &&
                              static_cast<const Connector*>(holder)->state == ConnectorState::kDead);
    const bool lingers = entry.closing || (dead && entry.references == 1);
    row.state = !entry.unheld.ok()                          ? "unheld"
                : lingers && entry.kind != PortKind::kLease ? "lingering"
                                                            : "held";
    if (!entry.unheld.ok()) row.comment = entry.unheld.message();
    row.holder = entry.holder;
    if (const Session* const s = sessions_.Find(entry.owner.session); s != nullptr) {
      row.owner = s->who();
    } else {
      row.owner.emplace();
      row.owner->uid = entry.owner.uid;
      row.owner->pid = entry.owner.pid;
    }
    row.references = entry.references;
    rows.emplace_back(entry.created, std::move(row));
  }
  for (const auto& [key, reservation] : ports_.space().reservations()) {
    PortRow row;
    row.local = key.local();
    row.adapter = adapters_[key.adapter].description.info.name;
    row.kind = "reservation";
    row.state = "reserved";
    if (reservation.uid) {
      row.owner.emplace();
      row.owner->uid = *reservation.uid;
    }
    row.comment = reservation.comment;
    rows.emplace_back(reservation.created, std::move(row));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PortRow> sorted;
  sorted.reserve(rows.size());
  for (auto& [created, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

std::string Broker::Impl::AdapterOf(const Session& s) const {
  const Session::Objects& opened = s.Of(ObjectKind::kAdapter);
  if (opened.empty()) return {};
  return StateOf(**objects_.Find(opened.begin()->second)).description.info.name;
}

std::vector<SessionRow> Broker::Impl::Sessions() const {
  std::vector<SessionRow> rows;
  for (const auto& [id, s] : sessions_.all()) {
    rows.push_back({id, s.who(), s.opened, s.Count(ObjectKind::kConnector), s.Count(ObjectKind::kListener),
                    s.Count(ObjectKind::kSharedEndpoint), s.Count(ObjectKind::kQueuePair), s.operations(),
                    static_cast<std::uint32_t>(s.ops().running()), AdapterOf(s)});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SessionRow& a, const SessionRow& b) { return a.opened < b.opened; });
  return rows;
}

Counters Broker::Impl::counters() const {
  Counters counters = counters_;
  counters.failures.assign(sessions_.failures().begin(), sessions_.failures().end());
  counters.refusals.assign(refusals_.begin(), refusals_.end());
  return counters;
}

Quota::Usage Broker::Impl::UsageOf(std::uint32_t uid) const {
  const auto found = quota_.usage().find(uid);
  return found == quota_.usage().end() ? Quota::Usage{} : found->second;
}

std::optional<Identity> Broker::Impl::OwnerOf(SessionId session) const {
  const Session* const s = sessions_.Find(session);
  return s == nullptr ? std::nullopt : std::optional<Identity>(s->who());
}

}  // namespace nd::core
