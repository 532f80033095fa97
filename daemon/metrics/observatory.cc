// SPDX-License-Identifier: Apache-2.0
// Counts events as they happen, so that a picture need not scan the past.
#include "daemon/metrics/observatory.h"

#include <set>

#include "daemon/shell/broker_shell.h"

namespace nd::service {
namespace {

using Outcome = core::ConnectionRecord::Outcome;

ops::Who WhoOf(const core::Identity& identity) {
  return {identity.application.empty() ? identity.command : identity.application, identity.uid, identity.unit,
          identity.container};
}

ops::Flow FlowOf(const Traffic& t) {
  return {t.tx_bytes, t.rx_bytes, t.tx_sends, t.rx_sends, t.tx_writes, t.rx_writes,
          t.tx_reads, t.rx_reads, t.errors,   t.stalls,   t.wakeups};
}

// Returns the phase in which an attempt ended.
const char* StageOf(const core::ConnectionRecord& record) {
  using core::Phase;
  static constexpr Phase kActive[] = {Phase::kQueue, Phase::kConnect, Phase::kReply, Phase::kComplete,
                                      Phase::kEstablish};
  static constexpr Phase kPassive[] = {Phase::kDeliver, Phase::kAccept, Phase::kEstablish};
  const auto last = [&](std::span<const Phase> order) {
    std::size_t reached = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (record.phases.ended[static_cast<std::size_t>(order[i])]) reached = i + 1;
    }
    return core::PhaseName(order[std::min(reached, order.size() - 1)]);
  };
  return record.passive ? last(kPassive) : last(kActive);
}

ops::Tallies::Connection ConnectionOf(const core::ConnectionRecord& record, std::string_view transport) {
  ops::Tallies::Connection out;
  out.id = record.id.value;
  out.session = static_cast<std::uint64_t>(record.session);
  out.slot = record.counter_slot;
  out.local = record.local;
  out.peer = record.peer;
  out.passive = record.passive;
  out.who = WhoOf(*record.owner);
  out.link = {record.adapter, std::string(transport)};
  return out;
}

template <typename Key>
void Copy(const ops::Ledger<Key>& ledger, std::vector<std::pair<std::shared_ptr<const Key>, ops::Row>>* out) {
  out->reserve(ledger.entries().size());
  for (const auto& [key, entry] : ledger.entries()) out->emplace_back(entry.key, entry.row);
}

}  // namespace

const char* OperationName(std::size_t kind) {
  return session::OperationName(kind);
}

void Observatory::OnRecord(const core::ConnectionRecord& record, std::string_view transport,
                           const Traffic& traffic) {
  const Time now = loop_.clock().Now();
  if (record.outcome == Outcome::kEstablished) {
    const PhaseSpans spans = SpansOf(record.phases);
    ops::Tallies::Connection connection = ConnectionOf(record, transport);
    connection.since = record.established.value_or(now);
    // The handshake of a reattached connection happened before the restart of the broker.
    connection.reattached = spans.size() < 2;
    tallies_.Established(connection, FlowOf(traffic));
    if (connection.reattached) return;
    for (const PhaseSpan& span : spans) {
      phases_[record.passive][static_cast<std::size_t>(span.phase)].Add(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(span.seconds)));
    }
    handshakes_[record.passive].Add(connection.since - record.phases.began);
  } else if (record.established) {
    tallies_.Ended(record.id.value, core::OutcomeName(record.outcome), record.outcome == Outcome::kBroken,
                   record.why.detail(), FlowOf(traffic), now);
    lifetime_.Add((now - *record.established) / kLifetimeUnit);
  } else {
    tallies_.Failed(ConnectionOf(record, transport), StageOf(record), record.why, now);
  }
}

void Observatory::OnOperation(std::size_t kind, const Status& status, Duration took) {
  if (kind >= kOperations) return;
  operations_[kind].duration.Add(took);
  ++operations_[kind].answers[{status.code(), status.detail()}];
}

void Observatory::OnSession(core::SessionId session, const core::Identity& who) {
  ++sessions_opened_;
  tallies_.SessionOpened(static_cast<std::uint64_t>(session), WhoOf(who), loop_.clock().Now());
}

void Observatory::OnSessionEnd(core::SessionId session, const Status& why) {
  ++session_ends_[why.code()];
  tallies_.SessionClosed(static_cast<std::uint64_t>(session));
}

std::shared_ptr<const Picture> Observatory::Take(bool with_live) {
  const auto began = std::chrono::steady_clock::now();
  auto picture = std::make_shared<Picture>();
  Picture& p = *picture;
  p.at = loop_.clock().Now();
  tallies_.Read(p.at, [this](std::uint64_t session, std::uint32_t slot) -> std::optional<ops::Flow> {
    const auto traffic = shell_.TrafficOf(core::SessionId{session}, slot);
    return traffic ? std::optional(FlowOf(*traffic)) : std::nullopt;
  });
  Copy(tallies_.applications(), &p.applications);
  Copy(tallies_.peers(), &p.peers);
  Copy(tallies_.links(), &p.links);
  p.total = tallies_.total();
  if (with_live) p.live = tallies_.live();
  p.connections = tallies_.live_count();
  p.sessions = shell_.sessions();
  p.phases = phases_;
  p.handshakes = handshakes_;
  p.lifetime = lifetime_;
  p.operations = operations_;
  p.session_ends = session_ends_;
  p.sessions_opened = sessions_opened_;
  p.admin_calls = admin_.counts();
  p.doors = shell_.doors();

  const core::Broker& core = shell_.core();
  p.counters = core.counters();
  p.adapters = core.Adapters();
  for (const core::ListenerRow& row : core.Listeners()) {
    Picture::Listening& sum = p.listening[row.adapter];
    ++sum.listeners;
    sum.backlog_used += row.backlog_used;
    sum.backlog_limit += row.backlog_limit;
  }
  std::set<std::uint32_t> users;
  for (const auto& [who, row] : p.applications) {
    if (!row.idle() && users.insert(who->uid).second) p.usage.emplace_back(who->uid, core.UsageOf(who->uid));
  }
  p.draining = core.draining();
  if (const auto oldest = core.OldestPending()) p.oldest_pending = p.at - *oldest;
  p.pending_operations = shell_.pending_operations();
  p.handshakes_in_progress = shell_.manager().handshakes();
  p.journal = shell_.journal_state();
  if (history_ != nullptr) p.history = history_->state();
  p.rounds = loop_.rounds();
  p.reaper = shell_.reaper_state();
  p.descriptors_in_flight = shell_.in_flight().all();
  p.taking = std::chrono::steady_clock::now() - began;
  return picture;
}

std::string Picture::NotReady() const {
  if (draining) return "The broker is draining: it takes no new work until 'ndctl undrain'.";
  std::string unusable;
  for (const core::AdapterRow& row : adapters) {
    const std::string why = !row.enabled                             ? "disabled"
                            : row.description.info.addresses.empty() ? "no address"
                                                                     : "";
    if (why.empty()) return {};
    unusable += (unusable.empty() ? "" : ", ") + row.description.info.name + " (" + why + ")";
  }
  return unusable.empty() ? "The broker has no adapter." : "No adapter is usable: " + unusable + ".";
}

}  // namespace nd::service
