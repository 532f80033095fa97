// SPDX-License-Identifier: Apache-2.0
// Recounts every table from the objects alone. Written against the meaning of the tables, not with the
// functions that maintain them, so that a mistake there shows here.
#include <concepts>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/core/impl.h"

namespace nd::core {
namespace {

// What is wrong is said in parts, texts and functions that make one, since nearly always nothing is.
class Report {
 public:
  template <typename... Parts>
  void Must(bool condition, const Parts&... parts) {
    if (condition) return;
    (Add(parts), ...);
    text_ += "\n";
  }
  template <typename A, typename B, typename... Parts>
  void Same(const A& is, const B& should_be, const Parts&... parts) {
    Must(static_cast<std::uint64_t>(is) == static_cast<std::uint64_t>(should_be), parts...,
         [&] { return ": " + std::to_string(is) + ", recounted " + std::to_string(should_be); });
  }
  std::string Take() { return std::move(text_); }

 private:
  void Add(std::string_view part) { text_ += part; }
  template <std::invocable F>
  void Add(const F& part) {
    Add(part());
  }

  std::string text_;
};

struct TupleOrder {
  bool operator()(const std::pair<TupleKey, Role>& a, const std::pair<TupleKey, Role>& b) const {
    return std::tie(a.first.adapter, a.first.local, a.first.remote, a.second) <
           std::tie(b.first.adapter, b.first.local, b.first.remote, b.second);
  }
};

}  // namespace

std::string Broker::Impl::CheckInvariants() const {
  Report report;
  std::map<PortKey, std::uint32_t> references;
  std::map<std::uint32_t, Quota::Usage> usage;
  std::map<Handle, std::uint32_t> successors;
  std::map<std::uint64_t, Handle> cm_ids;
  std::set<std::pair<TupleKey, Role>, TupleOrder> tuples;
  std::map<SessionId, std::set<OpId>> pending;
  std::set<std::uint64_t> sequences;
  std::set<TimerKey> timers;
  std::uint64_t in_flight = 0, queued = 0, active = 0, reserving = 0;
  std::vector<std::uint32_t> listeners(adapters_.size());

  const auto shown = [](const auto& id) { return [&id] { return Show(id); }; };
  const auto at = [](const PortKey& key) { return [&key] { return key.local().ToString(); }; };
  const auto find = [&](Handle handle) -> const Object* {
    const auto* slot = objects_.Find(handle);
    return slot == nullptr ? nullptr : slot->get();
  };
  const auto note_pending = [&](SessionId session, const Pending& p, const auto& where) {
    if (!p) return;
    report.Must(pending[session].insert(p.op_id).second, "I4: operation in two places: ", where);
    report.Must(sequences.insert(p.sequence).second, "I4: sequence in two places: ", where);
    const auto s = sessions_.find(session);
    report.Must(s != sessions_.end() && s->second.ops.SequenceOf(p.op_id) == p.sequence,
                "I4: operation is not running: ", where);
  };
  const auto note_claim = [&](const PortClaim& claim, Handle holder) {
    report.Must(claim.key || !claim.reserving, "reserving without a port");
    report.Must(claim.replaced.empty(), "a replaced hold was not let go");
    if (!claim.key) return;
    ++references[*claim.key];
    if (!claim.reserving) return;
    ++reserving;
    const PortEntry* const entry = ports_.Find(*claim.key);
    const auto r = entry == nullptr ? reservations_.end()
                                    : reservations_.find(static_cast<std::uint64_t>(entry->endpoint));
    report.Must(r != reservations_.end() && r->second == holder, "reservation is not recorded");
  };
  const auto charge = [&](const Quota::Token& token, std::uint32_t uid, Resource resource) {
    report.Must(token && token.uid() == uid && token.resource() == resource, "I2: object is not charged");
    ++usage[uid][static_cast<std::size_t>(resource)];
  };

  for (const auto& [id, s] : sessions_) {
    if (s.charge) charge(s.charge, s.who.uid, Resource::kSessions);
    for (const auto& [sequence, handle] : s.objects) {
      const Object* const object = find(handle);
      report.Must(object != nullptr && object->session == id && object->sequence == sequence,
                  "I6: session lists an object that is not its own");
    }
    report.Same(s.objects.size(),
                s.connectors + s.listeners + s.shared_endpoints + s.queue_pairs + s.adapters,
                "objects of session ", shown(id));
  }

  for (const Object* object : AllObjects()) {
    const auto s = sessions_.find(object->session);
    report.Must(s != sessions_.end(), "I6: object of a dead session");
    if (s == sessions_.end()) continue;
    report.Must(s->second.objects.contains(object->sequence), "object is not listed by its session");
    const std::uint32_t uid = s->second.who.uid;
    if (object->adapter) ++successors[object->adapter];
    note_pending(object->session, object->close_op, "close");
    report.Must(!object->close_op || object->closing, "Close waits on an object that is not closing");
    switch (object->kind) {
      case ObjectKind::kAdapter:
        break;
      case ObjectKind::kQueuePair: {
        const QueuePair& q = static_cast<const QueuePair&>(*object);
        charge(q.charge, uid, Resource::kQueuePairs);
        report.Must(q.counter_slot < s->second.next_slot && !s->second.free_slots.contains(q.counter_slot),
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
        note_claim(l.claim, l.handle);
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
        note_claim(e.claim, e.handle);
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
        note_claim(c.claim, c.handle);
        if (c.through) ++successors[c.through];
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
        in_flight += c.in_flight ? 1 : 0;
        report.Must(!c.in_flight || (c.state == kConnecting && c.cm), "in flight at ", name);
        if (c.queue_key != 0) {
          ++queued;
          const auto q = launch_queue_.find(c.queue_key);
          report.Must(q != launch_queue_.end() && q->second == c.handle, "queue does not know ", name);
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

  for (const auto& [handle, count] : successors) {
    const Object* const object = find(handle);
    report.Must(object != nullptr, "antecedent gone before its successor");
    if (object != nullptr) report.Same(object->successors, count, "successors of ", shown(handle));
  }
  for (const Object* object : AllObjects()) {
    if (!successors.contains(object->handle)) report.Same(object->successors, 0u, "successors");
    const bool waits =
        object->successors > 0 || object->kind == ObjectKind::kConnector ||
        (object->kind == ObjectKind::kQueuePair && static_cast<const QueuePair*>(object)->connector);
    report.Must(!object->closing || waits, "closed object ", shown(object->handle), " waits for nothing");
  }

  for (const auto& [key, entry] : ports_.entries()) {
    if (entry.kind == PortKind::kLease) {
      report.Must(references[key]++ == 0, "I1: somebody refers to the lease of ", at(key));
      report.Must(!entry.charge, "I2: a lease is charged");
      report.Must(static_cast<bool>(grace_timer_), "I7: nothing ends the lease of ", at(key));
    } else {
      charge(entry.charge, entry.owner.uid, Resource::kPorts);
    }
    report.Same(entry.references, references[key], "I1: references of ", at(key));
    for (const auto& [other, unused] : ports_.entries()) {
      if (ports_.entries().size() > 2000) break;  // Pairs only in small worlds.
      if (&other == &key || other.adapter != key.adapter || other.family != key.family ||
          other.port != key.port) {
        continue;
      }
      report.Must(!key.ip.unspecified() && !other.ip.unspecified(),
                  "I1: wildcard and exact address on the port of ", at(key));
    }
  }
  for (const auto& [key, reservation] : ports_.reservations()) {
    report.Must(adapters_[key.adapter].present, "I12: a reservation on an adapter that is gone");
    const auto covers = [&key = key](const PortKey& other) {
      return other.adapter == key.adapter && other.family == key.family && other.port == key.port &&
             (other.ip == key.ip || other.ip.unspecified() || key.ip.unspecified());
    };
    for (const auto& [other, entry] : ports_.entries()) {
      report.Must(!covers(other) || reservation.uid == entry.owner.uid, "I12: ", at(other),
                  " is held although it is reserved");
    }
    for (const auto& [other, unused] : ports_.reservations()) {
      report.Must(other == key || !covers(other), "I12: two reservations of ", at(key));
    }
  }
  std::map<std::uint64_t, std::uint32_t> owed;
  for (const auto& [endpoint, kept] : keeping_) {
    ++owed[kept.request];
    const PortEntry* const entry = ports_.Find(kept.key);
    const auto reservation = ports_.reservations().find(kept.key);
    const bool lease = entry != nullptr && entry->kind == PortKind::kLease && entry->reserved &&
                       entry->endpoint == EndpointId{endpoint};
    const bool reserved =
        reservation != ports_.reservations().end() && reservation->second.endpoint == EndpointId{endpoint};
    report.Must(kept.request == 0 ? lease : reserved, "I5: a hold is awaited for nobody: ", at(kept.key));
  }
  for (const auto& [request, asked] : reserving_) {
    report.Same(asked.open, owed[request], "I4: answers owed to a ReservePort");
    report.Must(asked.open > 0, "I4: a ReservePort waits for nothing");
    owed.erase(request);
  }
  owed.erase(0);
  report.Must(owed.empty(), "I4: answers owed to no ReservePort");
  report.Same(ports_.entries().size(), references.size(), "ports");
  report.Must(usage == std::map<std::uint32_t, Quota::Usage>(quota_.usage().begin(), quota_.usage().end()),
              "I2: charges differ from the recount");
  report.Same(tuples_.size(), tuples.size(), "4-tuples");
  report.Same(cm_.size(), cm_ids.size(), "ids");
  report.Same(reservations_.size(), reserving, "reservations");
  if (grace_timer_) timers.insert(grace_timer_);
  report.Same(timers_.size(), timers.size(), "I7: timers");
  for (const TimerKey& key : timers) report.Must(timers_.contains(key), "I7: timer is not armed");
  report.Same(in_flight_, in_flight, "in flight");
  report.Same(launch_queue_.size(), queued, "launch queue");
  report.Must(launch_queue_.empty() || in_flight_ >= settings_.max_handshakes_in_flight,
              "I10: connects wait although there is room");
  report.Same(counters_.active_connection, active, "active connections");
  report.Same(waiting_.size(), sequences.size(), "I4: waiting");
  for (const auto& [id, s] : sessions_) {
    const auto p = pending.find(id);
    report.Same(s.ops.running(), p == pending.end() ? 0 : p->second.size(), "I4: pending of session ",
                shown(id));
  }
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    report.Same(adapters_[no].listeners, listeners[no], "listeners of adapter");
  }
  return report.Take();
}

}  // namespace nd::core
