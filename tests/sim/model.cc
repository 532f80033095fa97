// SPDX-License-Identifier: Apache-2.0
// The frame of the reference model: one step, and the comparison of everything visible.
#include "tests/sim/model.h"

#include <algorithm>
#include <utility>

#include "tests/sim/trace.h"

namespace nd::sim {

Model::Model(Options options)
    : options_(std::move(options)), settings_(options_.settings), policy_(options_.policy) {
  for (const provider::AdapterDescription& d : options_.adapters) adapters_.push_back({d, true, true});
  if (!options_.broken) options_.broken = [](const char*) { return false; };
  for (const core::Lease& lease : options_.leases) {
    for (std::size_t no = 0; no < adapters_.size(); ++no) {
      const Key key{no, lease.local};
      if (Info(no).name != lease.adapter || Conflicts(key, nullptr)) continue;
      Port port;
      port.lease = true;
      port.uid = lease.holder.uid;
      port.pid = lease.holder.pid;
      port.born = lease.holder.born;
      ports_[key] = port;
    }
  }
}

Model::Thing* Model::Find(Id id) {
  const auto found = things_.find(id);
  return found == things_.end() ? nullptr : &found->second;
}

void Model::GiveName(Thing& thing, Handle handle) {
  Check(given_.insert(handle).second, "I5: a handle is given out twice");
  Check(handle.epoch() == (options_.epoch & 0xFFFF), "I5: a handle of another life");
  thing.handle = handle;
  handles_[handle] = thing.id;
}

Model::Thing* Model::ByHandle(Handle handle) {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : Find(found->second);
}

Model::Thing* Model::ByCm(provider::CmId id) {
  for (auto& [number, t] : things_) {
    if (t.cm == id) return &t;
  }
  return nullptr;
}

template <typename T>
const T* Model::Seen(std::function<bool(const T&)> which) {
  for (const core::Action& action : *actions_) {
    const T* const a = std::get_if<T>(&action);
    if (a != nullptr && which(*a)) return a;
  }
  return nullptr;
}
template const core::CmReserve* Model::Seen(std::function<bool(const core::CmReserve&)>);
template const core::ReserveDone* Model::Seen(std::function<bool(const core::ReserveDone&)>);
template const core::CmAccept* Model::Seen(std::function<bool(const core::CmAccept&)>);
template const core::CmPrepared* Model::Seen(std::function<bool(const core::CmPrepared&)>);
template const core::CmDisconnect* Model::Seen(std::function<bool(const core::CmDisconnect&)>);
template const core::HandOffTo* Model::Seen(std::function<bool(const core::HandOffTo&)>);
template const core::SendConnectEvent* Model::Seen(std::function<bool(const core::SendConnectEvent&)>);
template const core::SendDisconnectEvent* Model::Seen(std::function<bool(const core::SendDisconnectEvent&)>);
template const core::SendTransportCommand* Model::Seen(
    std::function<bool(const core::SendTransportCommand&)>);

Model::Expected& Model::End(SessionId session, OpId op, StatusCode code) {
  static Expected nobody;
  nobody = {};
  if (op == 0) return nobody;
  Session& s = sessions_.at(session);
  s.running.erase(op);
  s.done[op] = code;
  if (s.ending) return nobody;
  Expected& expected = expected_[{session, op}];
  expected = {};
  expected.code = code;
  return expected;
}

Model::Expected& Model::Finish(Thing& thing, OpId& op, StatusCode code) {
  return End(thing.session, std::exchange(op, 0), code);
}

std::string Model::Step(Time now, const core::Event& event, const core::Actions& actions,
                        const Tables& tables) {
  now_ = now;
  actions_ = &actions;
  expected_.clear();
  expected_rejects_.clear();
  expected_ends_.clear();
  late_.clear();
  errors_.clear();
  std::visit([this](const auto& e) { On(e); }, event);
  Compare(actions);
  Learn(tables);
  CompareRows(tables);
  actions_ = nullptr;
  return std::exchange(errors_, {});
}

void Model::Compare(const core::Actions& actions) {
  std::set<std::pair<SessionId, OpId>> came;
  for (const core::Action& action : actions) {
    if (const auto* c = std::get_if<core::Complete>(&action)) {
      const std::string what = "operation " + std::to_string(c->op_id) + " of session " +
                               std::to_string(static_cast<std::uint64_t>(c->session));
      Check(came.insert({c->session, c->op_id}).second, "I4: " + what + " completed twice");
      const auto expected = expected_.find({c->session, c->op_id});
      if (expected == expected_.end()) {
        Fail("I4: " + what + " completed " + Text(c->status) + " out of nothing");
        continue;
      }
      const Expected& e = expected->second;
      Check(e.code == c->status.code(),
            what + " completed " + Text(c->status) + " instead of " + std::string(Name(e.code)));
      if (e.code != c->status.code()) continue;
      Check(!e.limits || *e.limits == c->reply.limits, "b.4: " + what + " has other read limits");
      Check(!e.proof || *e.proof == c->reply.proof, what + " has another proof");
      Check(!e.data || *e.data == c->reply.private_data, "b.5: " + what + " has other private data");
      const bool known = e.address && (e.address->port() != 0 || c->reply.address == *e.address);
      Check(!known || *e.address == c->reply.address, what + " has another address");
      if (e.learn) e.learn(*c);
    } else if (const auto* reject = std::get_if<core::CmReject>(&action)) {
      const auto id = static_cast<std::uint64_t>(reject->id);
      const auto expected = expected_rejects_.find(id);
      if (expected == expected_rejects_.end()) {
        Fail("a request was refused (" + std::string(Name(reject->detail)) + ") that should not be");
        continue;
      }
      Check(expected->second == reject->detail, "refused because of " + std::string(Name(reject->detail)) +
                                                    " instead of " + std::string(Name(expected->second)));
      expected_rejects_.erase(expected);
    } else if (const auto* end = std::get_if<core::EndSession>(&action)) {
      Check(expected_ends_.erase(end->session) == 1, "a session is ended that did nothing wrong");
    } else if (const auto* connect = std::get_if<core::CmConnect>(&action)) {
      const provider::ConnectParams& p = connect->params;
      Thing* starts = nullptr;
      for (auto& [id, t] : things_) {
        const bool same_place = t.local == p.local || (!t.hold && t.any && t.local.same_ip(p.local));
        if (t.kind == Kind::kConnector && t.state == C && !t.launched && !t.reserving && same_place &&
            !Closed(t) && t.remote == p.remote && Info(t).name == p.adapter) {
          starts = &t;
          break;
        }
      }
      const auto late = std::ranges::find_if(late_, [&](const auto& l) {
        return l.second == p.remote &&
               (l.first.at == p.local || (l.first.at.port() == 0 && l.first.at.same_ip(p.local)));
      });
      if (starts == nullptr && late != late_.end()) {
        late_.erase(late);
        continue;
      }
      if (starts == nullptr) {
        Fail("a connection is begun that nobody asked for");
        continue;
      }
      if (!starts->hold) Choose(*starts, p.local);
      Check(p.offer == starts->offer && p.private_data == starts->send_data,
            "b.4: what Connect sends is not what it must be");
      CheckShare(*starts);
      starts->launched = true;
      starts->launched_at = now_;
      starts->cm = p.id;
    }
  }
  for (const auto& [key, expected] : expected_) {
    Check(came.contains(key), "I4: operation " + std::to_string(key.second) + " of session " +
                                  std::to_string(static_cast<std::uint64_t>(key.first)) +
                                  " did not complete with " + std::string(Name(expected.code)));
  }
  for (const auto& [id, detail] : expected_rejects_) {
    Fail("a request was not refused that should be (" + std::string(Name(detail)) + ")");
  }
  for (const SessionId session : expected_ends_) {
    Fail("session " + std::to_string(static_cast<std::uint64_t>(session)) + " was not ended");
  }
}

// A lowered bound ends nothing, but nothing may be started above it.
void Model::CheckShare(const Thing& starts) {
  std::uint64_t flying = 0, of_user = 0, to_destination = 0;
  for (const auto& [id, t] : things_) {
    if (t.state != C || !t.launched || now_ >= t.launched_at + settings_.handshake_pace) continue;
    ++flying;
    of_user += sessions_.at(t.session).who.uid == sessions_.at(starts.session).who.uid ? 1 : 0;
    to_destination += t.remote == starts.remote ? 1 : 0;
  }
  Check(flying < settings_.max_handshakes_in_flight, "more handshakes in flight than allowed");
  const std::uint64_t share = 7 * (settings_.max_handshakes_in_flight - flying);
  Check(of_user < share, "a user has more handshakes in flight than its share");
  Check(to_destination < share, "a destination has more handshakes in flight than its share");
}

// Takes over the choices of the core: new handles and ephemeral ports.
void Model::Learn(const Tables& tables) {
  std::vector<Thing*> nameless;
  for (auto& [id, t] : things_) {
    if (!t.handle) nameless.push_back(&t);
  }
  const auto name = [&](Kind kind, Handle handle, SessionId session) {
    if (handles_.contains(handle)) return;
    for (Thing*& t : nameless) {
      if (t == nullptr || t->kind != kind || t->session != session) continue;
      GiveName(*t, handle);
      t = nullptr;
      return;
    }
  };
  if (!nameless.empty()) {
    for (const core::ConnectionRow& row : tables.Connections()) {
      name(Kind::kConnector, row.id, row.session);
    }
    for (const core::EndpointRow& row : tables.Endpoints()) name(Kind::kEndpoint, row.id, row.session);
    for (const core::QueuePairRow& row : tables.QueuePairs()) name(Kind::kPair, row.id, row.session);
  }
  const bool open = std::ranges::any_of(things_, [](const auto& t) {
    return t.second.kind == Kind::kConnector && t.second.any && !t.second.hold;
  });
  if (!open) return;
  for (const core::ConnectionRow& row : tables.Connections()) {
    Thing* const t = ByHandle(row.id);
    if (t != nullptr && t->any && !t->hold && row.local.port() != 0) Choose(*t, row.local);
  }
}

void Model::CompareRows(const Tables& tables) {
  CompareConnections(tables);
  ComparePorts(tables);
  std::size_t listeners = 0;
  for (const core::ListenerRow& row : tables.Listeners()) {
    ++listeners;
    const Thing* const l = ByHandle(row.id);
    if (l == nullptr || l->kind != Kind::kListener) {
      Fail("a listener is shown that should not exist");
      continue;
    }
    const char* const state = l->closing                  ? "closing"
                              : l->listening && l->paused ? "paused"
                              : l->listening              ? "listening"
                              : l->bound                  ? "bound"
                                                          : "unbound";
    Check(row.state == state, "a listener is " + row.state + " instead of " + state);
    Check(row.backlog_used == l->requests.size() + Unanswered(*l) && row.waiting_gets == l->gets.size(),
          "b.2: the queue of a listener is another one");
  }
  const auto count = [&](Kind kind, std::optional<SessionId> session) {
    return static_cast<std::size_t>(std::ranges::count_if(things_, [&](const auto& t) {
      return t.second.kind == kind && (!session || t.second.session == *session);
    }));
  };
  Check(listeners == count(Kind::kListener, {}), "listeners are missing");
  std::size_t sessions = 0;
  for (const core::SessionRow& row : tables.Sessions()) {
    ++sessions;
    const auto s = sessions_.find(row.id);
    if (s == sessions_.end()) {
      Fail("I6: a session is shown that is over");
      continue;
    }
    Check(row.connectors == count(Kind::kConnector, row.id) &&
              row.listeners == count(Kind::kListener, row.id) &&
              row.shared_endpoints == count(Kind::kEndpoint, row.id) &&
              row.queue_pairs == count(Kind::kPair, row.id),
          "I2: what a session holds is not what it made");
    Check(row.pending_operations == s->second.running.size(),
          "I4: operations are pending that should not be");
  }
  Check(sessions == sessions_.size(), "sessions are missing");
}

void Model::CompareConnections(const Tables& tables) {
  std::size_t rows = 0;
  for (const core::ConnectionRow& row : tables.Connections()) {
    ++rows;
    const Thing* const c = ByHandle(row.id);
    if (c == nullptr || c->kind != Kind::kConnector) {
      Fail("I6: a connector is shown that should not exist");
      continue;
    }
    const auto state = static_cast<State>(row.state);
    const std::string name = "connector " + std::to_string(row.id.value & 0xFFFFFFFFFFFF) + " ";
    Check(state == c->state, "b.1: " + name + "is " + std::string(core::Name(row.state)) + " instead of " +
                                 std::string(core::Name(static_cast<core::ConnectorState>(c->state))));
    Check(row.session == c->session, "I6: " + name + "belongs to somebody else");
    Check(row.local == c->local,
          name + "is at " + row.local.ToString() + " instead of " + c->local.ToString());
    Check(row.peer == c->remote, name + "has another peer");
    Check(row.adapter == Info(*c).name, name + "is on another adapter");
    const bool settled =
        c->state == R || c->state == K || c->state == I || c->state == A || c->state == E || c->state == P;
    Check(!settled || row.limits == c->limits, "b.4: " + name + "has other read limits");
    Check(!settled || row.passive == c->passive, name + "is on the other side");
    const Thing* const through = c->through != 0 ? Find(c->through) : nullptr;
    Check((through != nullptr ? through->handle : Handle{}) == row.through, name + "came another way");
  }
  const auto mine =
      std::ranges::count_if(things_, [](const auto& t) { return t.second.kind == Kind::kConnector; });
  Check(rows == static_cast<std::size_t>(mine), "connectors are missing");
}

std::string Model::Difference(const Key& key, const Port& port, const core::PortRow& row) const {
  const char* const name = port.lease                     ? "lease"
                           : port.kind == Kind::kListener ? "listener"
                           : port.kind == Kind::kEndpoint ? "shared endpoint"
                                                          : "connector";
  const std::string where = row.local.ToString();
  if (row.kind != name) return "I1: " + where + " is held by a " + row.kind + " instead of a " + name;
  const auto users = std::ranges::count_if(things_, [&](const auto& t) { return t.second.hold == key; });
  if (row.references != users && !port.lease) {
    return "I1: " + where + " has " + std::to_string(row.references) + " users instead of " +
           std::to_string(users);
  }
  if (!row.owner || row.owner->uid != port.uid) return "I2: " + where + " is charged to somebody else";
  return {};
}

void Model::ComparePorts(const Tables& tables) {
  std::size_t rows = 0, kept = 0;
  for (const core::PortRow& row : tables.Ports()) {
    if (row.kind == "reservation") {
      ++kept;
      const bool known = std::ranges::any_of(kept_, [&](const auto& k) {
        return k.first.at == row.local && adapters_[k.first.adapter].description.info.name == row.adapter;
      });
      Check(known, "a reservation of " + row.local.ToString() + " is shown that should not be");
      continue;
    }
    ++rows;
    // An adapter that came back is a new one with the same name: each row must equal a port of one of them.
    std::string wrong = "I1: " + row.local.ToString() + " is held and should not be";
    for (const auto& [key, port] : ports_) {
      if (key.at != row.local || adapters_[key.adapter].description.info.name != row.adapter) continue;
      wrong = Difference(key, port, row);
      if (wrong.empty()) break;
    }
    if (!wrong.empty()) Fail(wrong);
  }
  Check(kept == kept_.size(), "reservations are missing");
  Check(rows == ports_.size(), "I1: " + std::to_string(ports_.size()) + " ports should be held and " +
                                   std::to_string(rows) + " are");
}

}  // namespace nd::sim
