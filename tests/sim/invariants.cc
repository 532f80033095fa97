// SPDX-License-Identifier: Apache-2.0
// Checks from outside the core; Broker::CheckInvariants checks the tables of the core.
#include "tests/sim/invariants.h"

#include <algorithm>

#include "tests/sim/trace.h"

namespace nd::sim {
namespace {

using core::SessionId;

std::string Show(SessionId id) {
  return "session " + std::to_string(static_cast<std::uint64_t>(id));
}

struct Event {
  Ledger& l;
  std::string operator()(const core::SessionOpened& e) {
    l.open.insert(e.session);
    l.who[e.session] = e.identity;
    return {};
  }
  std::string operator()(const core::SessionClosed& e) {
    l.open.erase(e.session);
    std::erase_if(l.asked, [&](const auto& a) { return a.first.first == e.session; });
    std::erase_if(l.answered, [&](const auto& a) { return a.first.first == e.session; });
    return {};
  }
  std::string operator()(const core::ClientOp& e) {
    if (l.open.contains(e.session) && e.op_id != 0) ++l.asked[{e.session, e.op_id}];
    return {};
  }
  std::string operator()(const core::CmRequested& e) {
    l.wire.insert(e.request.id);
    return {};
  }
  std::string operator()(const core::CmRejected& e) { return Ended(e.id); }
  std::string operator()(const core::CmFailed& e) { return Ended(e.id); }
  std::string operator()(const core::CmLost& e) { return Ended(e.id); }
  std::string operator()(const core::CmReserved& e) {
    if (!e.status.ok()) l.places.erase(e.endpoint);
    return {};
  }
  std::string operator()(const core::ReservePort&) {
    ++l.reserves;
    return {};
  }
  std::string operator()(const core::SettingsChanged& e) {
    l.settings = e.settings;
    l.policy = e.policy;
    l.policies.push_back(e.policy);
    return {};
  }
  std::string operator()(const core::AdaptersChanged& e) {
    std::set<std::string> now;
    for (const provider::AdapterDescription& d : e.adapters) now.insert(d.info.name);
    for (const std::string& name : l.adapters) {
      if (!now.contains(name)) l.vanished.insert(name);
    }
    l.adapters = std::move(now);
    return {};
  }
  template <typename Other>
  std::string operator()(const Other&) {
    return {};
  }
  std::string Ended(provider::CmId id) {
    l.wire.erase(id);
    return {};
  }
};

struct Action {
  Ledger& l;
  const Host& host;
  const Tables& tables;

  std::string operator()(const core::Complete& a) {
    const auto key = std::pair(a.session, a.op_id);
    const auto asked = l.asked.find(key);
    if (!l.open.contains(a.session) || asked == l.asked.end()) {
      return "I4: " + Show(a.session) + " gets an answer without a request";
    }
    // A repeat of a completed operation is answered again; a repeat of a running one is not.
    if (++l.answered[key] > asked->second)
      return "I4: an operation completed more often than it was requested";
    if (a.status.ok() && a.reply.handle && a.reply.handle.epoch() != (host.epoch() & 0xFFFF)) {
      return "I5: a completion has a handle of another life of the broker";
    }
    return {};
  }
  std::string operator()(const core::HandOffTo& a) {
    return First(To(a.session), Living(a.connector), OnWire(a.id));
  }
  std::string operator()(const core::SendConnectEvent& a) {
    return First(To(a.session), Living(a.connector));
  }
  std::string operator()(const core::SendDisconnectEvent& a) {
    return First(To(a.session), Epoch(a.connector));
  }
  std::string operator()(const core::SendTransportCommand& a) {
    return First(Known(a.session), Epoch(a.connector));
  }
  std::string operator()(const core::SendAdapterEvent& a) { return First(To(a.session), Epoch(a.adapter)); }
  std::string operator()(const core::EndSession& a) { return To(a.session); }
  std::string operator()(const core::CmReserve& a) {
    return l.places.insert({a.endpoint, {a.adapter, a.local}}).second ? "" : "I5: a port is reserved twice";
  }
  std::string operator()(const core::CmRelease& a) {
    const auto place = l.places.find(a.endpoint);
    if (place == l.places.end()) return "I5: a port is released that is not reserved";
    const auto at = place->second;
    l.places.erase(place);
    if (l.vanished.contains(at.first)) return {};
    // Not even until the next action: another program could take the port in that time.
    for (const core::PortRow& row : tables.Ports()) {
      if (row.adapter != at.first || row.local != at.second || row.state == "unheld") continue;
      if (std::ranges::none_of(l.places, [&](const auto& p) { return p.second == at; })) {
        return "I1: " + row.local.ToString() + " is free for a moment although it is held";
      }
    }
    return {};
  }
  std::string operator()(const core::ReserveDone&) {
    if (l.reserves == 0) return "I4: a ReservePort is answered twice";
    --l.reserves;
    return {};
  }
  std::string operator()(const core::CmListen& a) {
    for (const core::ListenerRow& row : tables.Listeners()) {
      if (row.adapter != a.adapter || row.local != a.local) continue;
      // The policy at the time of the request counts, also for port 0. The model knows the exact moment.
      for (const core::Policy& policy : l.policies) {
        if (policy.MayListen(row.owner, a.local).allowed) return {};
        if (policy.MayListen(row.owner, a.local.WithPort(0)).allowed) return {};
      }
      return "I8: " + a.local.ToString() + " has a listener against the policy";
    }
    return {};
  }
  std::string operator()(const core::CmConnect& a) {
    if (!l.wire.insert(a.params.id).second) return "I5: an attempt's id is used twice";
    core::Identity who;
    for (const auto& [id, identity] : l.who) {
      if (identity.uid == a.params.owner_uid && identity.pid == a.params.owner_pid) who = identity;
    }
    // It may have been decided under an earlier policy, before it waited for its turn.
    const bool allowed = std::ranges::any_of(l.policies, [&](const core::Policy& policy) {
      return policy.MayConnect(who, a.params.remote).allowed;
    });
    return allowed ? "" : "I8: " + a.params.remote.ToString() + " is connected to against the policy";
  }
  // Each connection is reported once when it is established, and once when it, or the attempt, has ended.
  std::string operator()(const core::ConnectionRecord& a) {
    std::uint32_t& told = l.records[a.id];
    const bool up = a.outcome == core::ConnectionRecord::Outcome::kEstablished;
    if (up && told == 1) return "a connection is told of as established twice";
    if (!up && !a.ended) return "the end of a connection has no time";
    told = up ? 1 : 0;
    if (up != a.established.has_value() && up) return "an established connection has no time";
    return {};
  }
  std::string operator()(const core::CmAccept& a) { return OnWire(a.id); }
  std::string operator()(const core::CmConfirm& a) { return OnWire(a.id); }
  std::string operator()(const core::CmPrepared& a) { return OnWire(a.id); }
  std::string operator()(const core::CmDisconnect& a) { return OnWire(a.id); }
  std::string operator()(const core::CmReject& a) {
    return l.wire.erase(a.id) == 1 ? "" : "I5: an ended attempt is refused";
  }
  std::string operator()(const core::CmAbort& a) {
    return l.wire.erase(a.id) == 1 ? "" : "I5: an ended attempt is withdrawn";
  }
  template <typename Other>
  std::string operator()(const Other&) {
    return {};
  }

 private:
  template <typename... Rest>
  static std::string First(const std::string& one, const Rest&... rest) {
    if constexpr (sizeof...(rest) == 0) {
      return one;
    } else {
      return one.empty() ? First(rest...) : one;
    }
  }
  std::string To(SessionId id) const {
    return l.open.contains(id) ? "" : "I5: a message to " + Show(id) + ", which has ended";
  }
  // Includes a session that ends with this step: its transports still have to be informed.
  std::string Known(SessionId id) const {
    return l.who.contains(id) ? "" : "I5: a message to " + Show(id) + ", which never existed";
  }
  std::string Epoch(core::Handle handle) const {
    return handle.epoch() == (host.epoch() & 0xFFFF) ? "" : "I5: an action names a handle of another life";
  }
  std::string Living(core::Handle connector) const {
    for (const core::ConnectionRow& row : tables.Connections()) {
      if (row.id == connector) return {};
    }
    return "I5: an action names a connector that is gone";
  }
  std::string OnWire(provider::CmId id) const {
    return l.wire.contains(id) ? "" : "I5: an action names an attempt that has ended";
  }
};

}  // namespace

std::string FollowEvent(Ledger& ledger, const core::Event& event) {
  return std::visit(Event{ledger}, event);
}

std::string FollowActions(Ledger& ledger, const Host& host, const Tables& tables,
                          const core::Actions& actions) {
  Action check{ledger, host, tables};
  for (const core::Action& action : actions) {
    if (std::string wrong = std::visit(check, action); !wrong.empty()) return wrong + ": " + Text(action);
  }
  return {};
}

std::string I1PortsHaveOneOwner(const Tables& tables, const Ledger& ledger) {
  const std::vector<core::PortRow>& rows = tables.Ports();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const core::PortRow &a = rows[i], &b = rows[j];
      if (ledger.vanished.contains(a.adapter)) continue;
      // A reservation for a user may be used by that user.
      if ((a.kind == "reservation") != (b.kind == "reservation")) continue;
      const bool same =
          a.adapter == b.adapter && a.local.family() == b.local.family() && a.local.port() == b.local.port();
      if (same && (a.local.same_ip(b.local) || a.local.unspecified() || b.local.unspecified())) {
        return "I1: " + a.local.ToString() + " and " + b.local.ToString() + " are both held";
      }
    }
    if (rows[i].references == 0 && rows[i].kind != "reservation")
      return "I1: " + rows[i].local.ToString() + " has no holder";
  }
  return {};
}

std::string I1KeptPortsAreHeld(const Tables& tables, const Ledger& ledger) {
  std::set<std::string> keep;
  for (const core::AdapterRow& row : tables.Adapters()) {
    if (row.description.keep_ports) keep.insert(row.description.info.name);
  }
  for (const core::PortRow& row : tables.Ports()) {
    const bool kept = (row.kind == "lease" && row.state != "unheld") || row.kind == "reservation";
    if (!kept || !keep.contains(row.adapter) || ledger.vanished.contains(row.adapter)) continue;
    const auto same = [&](const auto& p) { return p.second == std::pair(row.adapter, row.local); };
    if (std::ranges::none_of(ledger.places, same)) {
      return "I1: any program can take " + row.local.ToString() + ", a " + row.kind;
    }
  }
  return {};
}

std::string I2ChargesAreWithinQuota(const Tables& tables, Ledger& ledger) {
  std::map<std::uint32_t, std::array<std::uint32_t, 5>> held;
  std::map<std::uint32_t, core::Identity> who;
  for (const core::SessionRow& row : tables.Sessions()) {
    auto& of = held[row.owner.uid];
    who[row.owner.uid] = row.owner;
    of[0] += row.connectors;
    of[1] += row.listeners;
    of[2] += row.shared_endpoints;
    of[3] += row.queue_pairs;
  }
  for (const core::PortRow& row : tables.Ports()) {
    if (row.kind != "lease" && row.kind != "reservation") ++held[row.owner->uid][4];
  }
  for (const auto& [uid, counts] : held) {
    if (!who.contains(uid)) continue;
    const core::Limits limits = ledger.policy.LimitsOf(who[uid]);
    const std::optional<std::uint32_t> bounds[] = {limits.connectors, limits.listeners,
                                                   limits.shared_endpoints, limits.queue_pairs, limits.ports};
    for (std::size_t i = 0; i < 5; ++i) {
      // A lowered bound takes nothing away, but nothing may be added above it.
      const auto before = ledger.held.find(uid);
      const bool grew = before == ledger.held.end() || counts[i] > before->second[i];
      if (bounds[i] && counts[i] > *bounds[i] && grew) {
        return "I2: uid " + std::to_string(uid) + " holds too much";
      }
    }
  }
  ledger.held = std::move(held);
  return {};
}

std::string I3StreamsHaveOneOwner(const Net& net, Host& host) {
  const std::size_t open = net.CountOwned(Owner::kBroker, host.number());
  const std::size_t known = host.up() ? host.cm().stream_ends() : 0;
  if (open == known) return {};
  return "I3: the broker of host " + std::to_string(host.number()) + " owns " + std::to_string(open) +
         " streams and knows " + std::to_string(known);
}

std::string I3AttemptsMatchTheWire(Host& host, const Ledger& ledger) {
  for (const provider::CmId id : host.cm().Attempts()) {
    if (!ledger.wire.contains(id)) return "I3: an attempt lives on the wire that the core has ended";
  }
  return {};
}

std::string I4OperationsEndOnce(const Tables& tables, const Ledger& ledger) {
  // The operations in the core are those that were requested and not completed.
  std::map<SessionId, std::uint32_t> waiting;
  for (const auto& [key, times] : ledger.asked) {
    if (!ledger.answered.contains(key)) ++waiting[key.first];
  }
  for (const core::SessionRow& row : tables.Sessions()) {
    if (!ledger.open.contains(row.id)) continue;  // The session is being reclaimed.
    const std::uint32_t expected = waiting.contains(row.id) ? waiting[row.id] : 0;
    if (row.pending_operations > expected) return "I4: " + Show(row.id) + " has operations without a request";
  }
  return {};
}

std::string I6EndedSessionsHaveNoObjects(const Tables& tables, const Ledger& ledger) {
  // The objects of ended sessions are reclaimed in parts; afterwards none may be left.
  const bool busy = tables.broker().reclaiming();
  const auto dead = [&](SessionId id) { return !ledger.open.contains(id) && !busy; };
  for (const core::ConnectionRow& row : tables.Connections()) {
    if (dead(row.session)) return "I6: a connector of " + Show(row.session) + ", which has ended";
  }
  for (const core::ListenerRow& row : tables.Listeners()) {
    if (dead(row.session)) return "I6: a listener of " + Show(row.session) + ", which has ended";
  }
  for (const core::EndpointRow& row : tables.Endpoints()) {
    if (dead(row.session)) return "I6: a shared endpoint of " + Show(row.session) + ", which has ended";
  }
  const auto& sessions = tables.Sessions();
  const auto alive = static_cast<std::size_t>(std::ranges::count_if(
      sessions, [&](const core::SessionRow& row) { return ledger.open.contains(row.id); }));
  const bool all = alive == ledger.open.size() && (busy || alive == sessions.size());
  return all ? "" : "I6: core and host have different sessions";
}

std::string I7TimersHaveAPurpose(const Tables& tables, Time now, Time grace_ends) {
  if (!tables.broker().NextDeadline()) return {};
  const auto& ports = tables.Ports();
  const bool leases =
      std::ranges::any_of(ports, [](const core::PortRow& row) { return row.kind == "lease"; });
  if (leases || !tables.Connections().empty()) return {};
  // The time for the reattachment of clients, or a late Tick after the clock jumped.
  const Time due = *tables.broker().NextDeadline();
  return due == grace_ends || due <= now ? "" : "I7: a timer runs without a purpose";
}

std::string I9JournalEqualsHeldPorts(const Host& host, const Tables& tables, const Ledger& ledger) {
  if (!host.journal().journaled) return {};
  std::set<std::pair<std::string, Address>> live, journaled;
  for (const core::PortRow& row : tables.Ports()) {
    if (row.kind != "reservation" && !ledger.vanished.contains(row.adapter)) {
      live.insert({row.adapter, row.local});
    }
  }
  for (const core::Lease& lease : host.JournaledLeases()) {
    if (!ledger.vanished.contains(lease.adapter)) journaled.insert({lease.adapter, lease.local});
  }
  if (live == journaled) return {};
  return "I9: the journal's replay has " + std::to_string(journaled.size()) + " leases and " +
         std::to_string(live.size()) + " ports are held";
}

std::string I10GoodbyesEndInTime(const Tables& tables, Ledger& ledger, Time now, Duration jumped) {
  std::map<core::Handle, Time> goodbyes;
  for (const core::ConnectionRow& row : tables.Connections()) {
    if (row.state != core::ConnectorState::kDisconnecting) continue;
    const auto before = ledger.goodbyes.find(row.id);
    goodbyes[row.id] = before == ledger.goodbyes.end() ? now : before->second;
    const Duration limit = ledger.settings.disconnect_timeout + std::chrono::seconds(3) + jumped;
    if (now - goodbyes[row.id] > limit) return "I10: a goodbye has not ended in its time";
  }
  ledger.goodbyes = std::move(goodbyes);
  return {};
}

std::string I9NothingIsLeft(Host& host, const Net& net) {
  const std::string where = "I9: host " + std::to_string(host.number()) + " is at rest and has ";
  if (!host.up()) return where + "no broker";
  const core::Broker& broker = host.broker();
  if (!broker.Sessions().empty()) return where + std::to_string(broker.Sessions().size()) + " sessions";
  if (!broker.Connections().empty()) return where + "connectors";
  if (!broker.Listeners().empty() || !broker.Endpoints().empty()) return where + "listeners or endpoints";
  const auto ports = broker.Ports();
  if (std::ranges::any_of(ports, [](const core::PortRow& row) { return row.kind != "reservation"; }))
    return where + std::to_string(broker.Ports().size()) + " ports";
  if (broker.OldestPending()) return where + "operations that wait";
  if (broker.NextDeadline()) return where + "a timer";
  if (broker.counters().active_connection != 0) return where + "active connections";
  if (host.sessions() != 0) return where + "streams of sessions";
  std::set<std::string> keep;
  for (const core::AdapterRow& row : broker.Adapters()) {
    if (row.description.keep_ports) keep.insert(row.description.info.name);
  }
  const auto held = static_cast<std::size_t>(
      std::ranges::count_if(ports, [&](const core::PortRow& row) { return keep.contains(row.adapter); }));
  if (host.cm().stream_ends() != 0 || host.cm().device_ends() != 0 || host.cm().reserved() != held ||
      host.cm().local_handshakes() != 0 || host.cm().stray_ports() != 0) {
    return where + host.cm().Describe();
  }
  if (host.journal().journaled && !host.JournaledLeases().empty()) return where + "leases in the journal";
  if (net.open_ends() != 0) return "I3: at rest there are streams:\n" + net.Describe();
  return {};
}

}  // namespace nd::sim
