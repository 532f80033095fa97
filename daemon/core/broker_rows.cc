// SPDX-License-Identifier: Apache-2.0
// What ndctl sees. Costs a walk over everything, so only people ask for it.
#include <algorithm>
#include <utility>

#include "daemon/core/impl.h"

namespace nd::core {
namespace {

const char* KindName(PortKind kind) {
  switch (kind) {
    case PortKind::kListener:
      return "listener";
    case PortKind::kConnector:
      return "connector";
    case PortKind::kSharedEndpoint:
      return "shared endpoint";
  }
  return "?";
}

}  // namespace

std::vector<const Object*> Broker::Impl::AllObjects() const {
  std::vector<const Object*> all;
  all.reserve(objects_.size());
  objects_.ForEach([&](Handle, const std::unique_ptr<Object>& object) { all.push_back(object.get()); });
  std::sort(all.begin(), all.end(),
            [](const Object* a, const Object* b) { return a->sequence < b->sequence; });
  return all;
}

std::vector<AdapterRow> Broker::Impl::Adapters() const {
  std::vector<AdapterRow> rows;
  std::vector<std::uint32_t> connections(adapters_.size());
  for (const Object* object : AllObjects()) {
    if (object->kind != ObjectKind::kConnector) continue;
    const ConnectorState state = static_cast<const Connector*>(object)->state;
    if (state == ConnectorState::kConnected) ++connections[object->adapter_no];
  }
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    const AdapterState& a = adapters_[no];
    if (!a.present) continue;
    rows.push_back({a.description, a.enabled, connections[no], a.listeners, ports_.EphemeralUsed(no)});
  }
  return rows;
}

std::vector<ListenerRow> Broker::Impl::Listeners() const {
  std::vector<ListenerRow> rows;
  for (const Object* object : AllObjects()) {
    if (object->kind != ObjectKind::kListener) continue;
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
    row.owner = sessions_.at(l.session).who;
    row.adapter = StateOf(l).description.info.name;
    row.backlog_limit = l.queue.limit();
    row.backlog_used = l.queue.requests();
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
  for (const Object* object : AllObjects()) {
    if (object->kind != ObjectKind::kConnector) continue;
    const Connector& c = static_cast<const Connector&>(*object);
    ConnectionRow row;
    row.id = c.handle;
    row.state = c.state;
    row.local = c.local;
    row.peer = c.remote;
    row.session = c.session;
    row.owner = sessions_.at(c.session).who;
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
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<EndpointRow> Broker::Impl::Endpoints() const {
  std::vector<EndpointRow> rows;
  for (const Object* object : AllObjects()) {
    if (object->kind != ObjectKind::kSharedEndpoint) continue;
    const SharedEndpoint& e = static_cast<const SharedEndpoint&>(*object);
    rows.push_back({e.handle, e.local, e.closing, e.session, sessions_.at(e.session).who,
                    StateOf(e).description.info.name, e.successors});
  }
  return rows;
}

std::vector<PortRow> Broker::Impl::Ports() const {
  std::vector<std::pair<std::uint64_t, PortRow>> rows;
  for (const auto& [key, entry] : ports_.entries()) {
    PortRow row;
    row.local = key.local();
    row.adapter = adapters_[key.adapter].description.info.name;
    row.kind = KindName(entry.kind);
    const auto* slot = objects_.Find(entry.holder);
    const Object* const holder = slot == nullptr ? nullptr : slot->get();
    const bool dead =
        holder == nullptr || (holder->kind == ObjectKind::kConnector &&
                              static_cast<const Connector*>(holder)->state == ConnectorState::kDead);
    row.state = entry.closing || (dead && entry.references == 1) ? "lingering" : "held";
    row.holder = entry.holder;
    if (const auto s = sessions_.find(entry.owner.session); s != sessions_.end()) {
      row.owner = s->second.who;
    } else {
      row.owner.uid = entry.owner.uid;
      row.owner.pid = entry.owner.pid;
    }
    row.references = entry.references;
    rows.emplace_back(entry.created, std::move(row));
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PortRow> sorted;
  for (auto& [created, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

std::vector<SessionRow> Broker::Impl::Sessions() const {
  std::vector<SessionRow> rows;
  for (const auto& [id, s] : sessions_) {
    rows.push_back({id, s.who, s.opened, s.connectors, s.listeners, s.shared_endpoints, s.queue_pairs,
                    s.operations, static_cast<std::uint32_t>(s.ops.running())});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SessionRow& a, const SessionRow& b) { return a.opened < b.opened; });
  return rows;
}

Counters Broker::Impl::counters() const {
  Counters counters = counters_;
  counters.failures.assign(failures_.begin(), failures_.end());
  counters.refusals.assign(refusals_.begin(), refusals_.end());
  return counters;
}

std::optional<Time> Broker::Impl::OldestPending() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->second;
}

}  // namespace nd::core
