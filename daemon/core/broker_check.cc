// SPDX-License-Identifier: Apache-2.0
// Recounts every table from the objects alone. It does not use the functions that maintain the tables, so
// that their errors are found.
#include <algorithm>
#include <concepts>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/core/impl.h"

namespace nd::core {
namespace {

struct TupleOrder {
  bool operator()(const std::pair<TupleKey, Role>& a, const std::pair<TupleKey, Role>& b) const {
    return std::tie(a.first.adapter, a.first.local, a.first.remote, a.second) <
           std::tie(b.first.adapter, b.first.local, b.first.remote, b.second);
  }
};

}  // namespace

std::string Broker::Impl::CheckInvariants() const {
  Report report;
  std::vector<std::pair<Handle, const PortClaim*>> claims;
  std::map<std::uint32_t, Quota::Usage> usage;
  std::map<Handle, std::uint32_t> successors, unanswered;
  std::map<std::uint64_t, Handle> cm_ids;
  std::set<std::pair<TupleKey, Role>, TupleOrder> tuples;
  std::map<SessionId, std::set<OpId>> pending;
  std::set<std::uint64_t> sequences;
  std::set<TimerKey> timers;
  std::map<std::uint32_t, std::uint64_t> remembered, running;  // By user: bytes and operations.
  bool dead_wait = false;
  std::uint64_t in_flight = 0, active = 0;
  std::map<std::uint32_t, std::uint64_t> flights_of;  // By user.
  std::map<Address, std::uint64_t> flights_to;        // By destination.
  std::vector<std::pair<std::uint32_t, Address>>
      lines;  // User and destination of each connect that waits for the wire.
  std::vector<std::uint32_t> listeners(adapters_.size()), objects(adapters_.size());

  const auto shown = [](const auto& id) { return [&id] { return Show(id); }; };
  const auto find = [&](Handle handle) -> const Object* {
    const auto* slot = objects_.Find(handle);
    return slot == nullptr ? nullptr : slot->get();
  };
  const auto note_pending = [&](SessionId session, const Pending& p, const auto& where) {
    if (!p) return;
    report.Must(pending[session].insert(p.op_id).second, "I4: operation in two places: ", where);
    report.Must(sequences.insert(p.sequence).second, "I4: sequence in two places: ", where);
    const Session* const s = sessions_.Find(session);
    report.Must(s != nullptr && s->ops().SequenceOf(p.op_id) == p.sequence,
                "I4: operation is not running: ", where);
  };
  const auto charge = [&](const Quota::Token& token, std::uint32_t uid, Resource resource) {
    report.Must(token && token.uid() == uid && token.resource() == resource, "I2: object is not charged");
    ++usage[uid][static_cast<std::size_t>(resource)];
  };

  std::map<std::uint32_t, Quota::Usage> spares;
  std::uint32_t all_spares = 0, made_ahead = 0;
  for (const auto& [id, s] : sessions_.all()) {
    for (const SpareKind kind : kSpareKinds) {
      for (const Spare& spare : s.spares[static_cast<std::size_t>(kind)]) {
        if (!spare.charge) continue;
        report.Must(!s.closed && spare.charge.spare() && spare.charge.uid() == UserOf(s.who()),
                    "I2: spare is not charged");
        ++spares[UserOf(s.who())][static_cast<std::size_t>(spare.charge.resource())];
        ++all_spares;
        report.Must(have_spares_.contains({UserOf(s.who()), id}),
                    "spare of a session that is not known to have any");
        report.Must(kind != SpareKind::kQueuePair ||
                        (spare.counter_slot < s.next_slot && !s.free_slots.contains(spare.counter_slot)),
                    "counter slot of a spare is not taken");
      }
    }
    for (const auto& [made_by, handle] : s.made_by) {
      const Object* const object = find(handle);
      report.Must(object != nullptr && object->session == id && object->made_by == made_by,
                  "I6: name of no object");
      ++made_ahead;
    }
    if (s.charge) charge(s.charge, UserOf(s.who()), Resource::kSessions);
    for (std::size_t kind = 0; kind < kObjectKinds; ++kind) {
      for (const auto& [sequence, handle] : s.objects[kind]) {
        const Object* const object = find(handle);
        report.Must(object != nullptr && object->session == id && object->sequence == sequence &&
                        object->kind == static_cast<ObjectKind>(kind),
                    "I6: session lists an object that is not its own");
      }
    }
    report.Same(s.remembered_bytes(), s.ops().bytes(), "I2: bytes of completions of session ", shown(id));
    remembered[UserOf(s.who())] += s.ops().bytes();
    running[UserOf(s.who())] += s.ops().running();
    report.Same(std::count(sessions_.reclaim_line().begin(), sessions_.reclaim_line().end(), id),
                s.closed ? 1u : 0u, "I6: places in the line of reclaim of session ", shown(id));
  }

  report.Same(spares_, all_spares, "spares");
  report.Must(spares == std::map<std::uint32_t, Quota::Usage>(quota_.spares().begin(), quota_.spares().end()),
              "I2: charges of spares differ from the recount");
  for (const Object* object : AllObjects()) {
    ++objects[object->adapter_no];
    made_ahead -= object->made_by != 0 ? 1 : 0;
    const Session* const s = sessions_.Find(object->session);
    report.Must(s != nullptr, "I6: object of a dead session");
    if (s == nullptr) continue;
    report.Must(s->Of(object->kind).contains(object->sequence), "object is not listed by its session");
    const std::uint32_t uid = UserOf(s->who());
    if (object->adapter) ++successors[object->adapter];
    note_pending(object->session, object->close_op, "close");
    report.Must(!object->close_op || object->closing, "Close waits on an object that is not closing");
    switch (object->kind) {
      case ObjectKind::kAdapter:
        break;
      case ObjectKind::kQueuePair: {
        const QueuePair& q = static_cast<const QueuePair&>(*object);
        charge(q.charge, uid, Resource::kQueuePairs);
        report.Must(q.counter_slot < s->next_slot && !s->free_slots.contains(q.counter_slot),
                    "counter slot is not taken");
        if (!q.connector) break;
        const auto* c = dynamic_cast<const Connector*>(find(q.connector));
        report.Must(c != nullptr && c->queue_pair == q.handle, "queue pair and connector disagree");
        break;
      }
      case ObjectKind::kListener: {
        const Listener& l = static_cast<const Listener&>(*object);
        charge(l.charge, uid, Resource::kListeners);
        note_pending(l.session, l.op, "listener");
        claims.emplace_back(l.handle, &l.claim);
        report.Must(!l.op || l.claim.reserving, "listener's operation waits for nothing");
        if (l.state == Listener::State::kListening) ++listeners[l.adapter_no];
        report.Must(l.queue.requests() == 0 || l.queue.gets() == 0, "requests and gets wait at once");
        report.Must(
            l.state == Listener::State::kListening || (l.queue.requests() == 0 && l.queue.gets() == 0),
            "something waits at a listener that does not listen");
        for (const auto& [key, request] : l.queue.waiting_requests()) {
          const auto id = static_cast<std::uint64_t>(request.id);
          report.Must(tuples.insert({{l.adapter_no, request.local, request.remote}, Role::kPassive}).second,
                      "I1: two requests with the same addresses");
          const auto entry = cm_.find(id);
          report.Must(entry != cm_.end() && entry->second.listener == l.handle && entry->second.key == key,
                      "waiting request is not known by its id");
          cm_ids[id] = l.handle;
        }
        for (const auto& [key, handle] : l.queue.waiting_gets()) {
          const auto* c = dynamic_cast<const Connector*>(find(handle));
          report.Must(c != nullptr && c->state == ConnectorState::kWaiting && c->waits_at == l.handle &&
                          c->op.sequence == key,
                      "waiting GetConnectionRequest without its connector");
        }
        break;
      }
      case ObjectKind::kSharedEndpoint: {
        const SharedEndpoint& e = static_cast<const SharedEndpoint&>(*object);
        charge(e.charge, uid, Resource::kSharedEndpoints);
        note_pending(e.session, e.op, "endpoint");
        claims.emplace_back(e.handle, &e.claim);
        break;
      }
      case ObjectKind::kConnector: {
        const Connector& c = static_cast<const Connector&>(*object);
        const auto name = [&c] {
          return "connector " + Show(c.handle) + " (" + std::string(Name(c.state)) + ")";
        };
        charge(c.charge, uid, Resource::kConnectors);
        note_pending(c.session, c.op, name);
        for (const Pending& notify : c.notifies) note_pending(c.session, notify, name);
        claims.emplace_back(c.handle, &c.claim);
        if (c.through) ++successors[c.through];
        if (c.unanswered) {
          ++unanswered[c.through];
          report.Must(c.state == ConnectorState::kIncoming, "answered, but in the backlog: ", name);
        }
        using enum ConnectorState;
        const bool needs_op = c.state == kConnecting || c.state == kCompleting || c.state == kAccepting ||
                              c.state == kWaiting || c.claim.reserving;
        const bool may_op = needs_op || c.state == kDisconnecting;
        report.Must(!needs_op || c.op, "I4: nobody waits for ", name);
        report.Must(may_op || !c.op, "I4: an operation waits for nothing at ", name);
        report.Must(c.notifies.empty() || c.state == kConnected, "notifications wait at ", name);
        const bool linked = c.state == kConnecting || c.state == kReplied || c.state == kCompleting ||
                            c.state == kAccepting || c.state == kConnected || c.state == kPeerClosed ||
                            c.state == kDisconnecting;
        report.Must(!linked || c.queue_pair, "no queue pair at ", name);
        if (c.queue_pair) {
          const auto* q = dynamic_cast<const QueuePair*>(find(c.queue_pair));
          report.Must(q != nullptr && q->connector == c.handle, "queue pair does not know ", name);
        }
        if (c.state == kDead || linked) {
          report.Must(!c.closing || c.state == kDisconnecting, "closing lingers at ", name);
        }
        report.Must((linked || c.state == kIncoming) ? c.has_tuple : true, "no 4-tuple at ", name);
        if (c.has_tuple) {
          const Role role = c.passive ? Role::kPassive : Role::kActive;
          const TupleHolder holder = tuples_.Find({c.adapter_no, c.local, c.remote}, role);
          const bool replaced = c.passive && (c.state == kDead || c.state == kPeerClosed);
          report.Must((holder.attempt == c.attempt && holder.connector == c.handle) || replaced,
                      "I1: 4-tuple is not held by ", name);
          if (holder.attempt == c.attempt) tuples.insert({{c.adapter_no, c.local, c.remote}, role});
        }
        if (c.cm) {
          const auto id = static_cast<std::uint64_t>(*c.cm);
          const auto entry = cm_.find(id);
          report.Must(entry != cm_.end() && entry->second.connector == c.handle, "id is not known of ", name);
          report.Must(cm_ids.insert({id, c.handle}).second, "id in two places: ", name);
          report.Must(linked || c.state == kIncoming, "I5: id outlives the attempt at ", name);
        }
        for (const TimerKey& key : {c.pace_timer, c.establish_timer, c.goodbye_timer}) {
          if (key) timers.insert(key);
        }
        report.Must((c.state == kDisconnecting) == static_cast<bool>(c.goodbye_timer), "goodbye timer at ",
                    name);
        const Attempts::Place place = attempts_.PlaceOf(c.handle);
        report.Must((place == Attempts::Place::kFlies) == static_cast<bool>(c.pace_timer),
                    "I7: pace timer at ", name);
        if (place == Attempts::Place::kFlies) {
          ++in_flight;
          ++flights_of[uid];
          ++flights_to[c.remote];
          report.Must(c.state == kConnecting && c.cm, "in flight at ", name);
        } else if (place == Attempts::Place::kWaits) {
          lines.push_back({uid, c.remote});
          if (s->closed) dead_wait = true;
          report.Must(c.state == kConnecting && !c.cm && !c.claim.reserving, "in line at ", name);
        }
        active += c.state == kConnected ? 1 : 0;
        const bool live = c.state == kIncoming || (linked && c.state != kPeerClosed);
        report.Must(stopping_ || c.recording == live,
                    "I11: the record is not open exactly while it lives: ", name);
        report.Must(
            !c.recording || c.established.has_value() == (c.state == kConnected || c.state == kDisconnecting),
            "I11: told as established or not: ", name);
        break;
      }
    }
  }

  report.Same(made_ahead, 0u, "I6: names of objects");
  for (const auto& [handle, count] : successors) {
    const Object* const object = find(handle);
    report.Must(object != nullptr, "antecedent gone before its successor");
    if (object != nullptr) report.Same(object->successors, count, "successors of ", shown(handle));
  }
  for (const Object* object : AllObjects(ObjectKind::kListener)) {
    const Listener& l = static_cast<const Listener&>(*object);
    report.Same(l.queue.backlog(), l.queue.requests() + unanswered[l.handle], "backlog of ", shown(l.handle));
  }
  for (const Object* object : AllObjects()) {
    if (!successors.contains(object->handle)) report.Same(object->successors, 0u, "successors");
    const bool waits =
        object->successors > 0 || object->kind == ObjectKind::kConnector ||
        (object->kind == ObjectKind::kQueuePair && static_cast<const QueuePair*>(object)->connector);
    report.Must(!object->closing || waits, "closed object ", shown(object->handle), " waits for nothing");
  }

  ports_.CheckInvariants(claims, static_cast<bool>(grace_timer_), charge, &report);
  for (const auto& [uid, operations] : running) {
    report.Same(quota_.OperationsOf(uid), operations, "I2: operations of a user");
  }
  for (const auto& [uid, bytes] : remembered) {
    report.Same(quota_.BytesOf(uid), bytes, "I2: bytes kept for uid ",
                [uid = uid] { return std::to_string(uid); });
  }
  report.Must(usage == std::map<std::uint32_t, Quota::Usage>(quota_.usage().begin(), quota_.usage().end()),
              "I2: charges differ from the recount");
  report.Same(tuples_.size(), tuples.size(), "4-tuples");
  report.Same(cm_.size(), cm_ids.size(), "ids");
  if (grace_timer_) timers.insert(grace_timer_);
  report.Same(timers_.size(), timers.size(), "I7: timers");
  for (const TimerKey& key : timers) report.Must(timers_.contains(key), "I7: timer is not armed");
  report.Same(attempts_.flying(), in_flight, "in flight");
  report.Same(attempts_.waiting(), lines.size(), "connects that wait for the wire");
  const std::uint64_t room =
      in_flight < settings_.max_handshakes_in_flight ? settings_.max_handshakes_in_flight - in_flight : 0;
  for (const auto& [uid, destination] : lines) {
    if (dead_wait)
      break;  // Connects of ended sessions leave the queue a few at a time, so others may wait behind them.
    report.Must(
        flights_of[uid] >= Attempts::kShare * room || flights_to[destination] >= Attempts::kShare * room,
        "I10: a connect waits although there is room for its user and its destination");
  }
  report.Same(counters_.active_connection, active, "active connections");
  report.Same(sessions_.pending(), sequences.size(), "I4: waiting");
  for (const auto& [id, s] : sessions_.all()) {
    const auto p = pending.find(id);
    report.Same(s.ops().running(), p == pending.end() ? 0 : p->second.size(), "I4: pending of session ",
                shown(id));
  }
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    report.Same(adapters_[no].listeners, listeners[no], "listeners of adapter");
    report.Same(adapters_[no].objects, objects[no], "objects of adapter");
  }
  return report.Take();
}

}  // namespace nd::core
