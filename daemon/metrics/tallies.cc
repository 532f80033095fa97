// SPDX-License-Identifier: Apache-2.0
// Clients write the counters that are added up here, so values beyond the physical limit are not counted.
#include "daemon/metrics/tallies.h"

#include <algorithm>
#include <chrono>

namespace nd::ops {
namespace {

// More than a connection can move in a second: 2.2 Tbit/s, and a thousand million messages.
constexpr double kMostBytes = 275e9, kMostEvents = 1e9;
// A reattached client copies its old counts over within this time.
constexpr Duration kSettling = std::chrono::seconds(2);

std::string HostOf(const Address& address) {
  return address.IpToString();
}

}  // namespace

Tallies::Tallies()
    : applications_({512, 64, [](const Who& who) { return who.uid; },
                     [](const Who& who) {
                       return Who{"(other)", who.uid, {}, {}};
                     },
                     Who{"(other)", 0xFFFFFFFF, {}, {}}}),
      peers_({1024, 1024, nullptr, [](const std::string&) { return std::string("(other)"); }, "(other)"}),
      links_({4096,
              4096,
              nullptr,
              [](const LinkKey&) {
                return LinkKey{"(other)", {}};
              },
              {"(other)", {}}}) {}

void Tallies::SessionOpened(std::uint64_t session, const Who& who, Time now) {
  Row& row = applications_.Of(who, now).row;
  ++row.sessions;
  sessions_[session] = &row;
}

void Tallies::SessionClosed(std::uint64_t session) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  --it->second->sessions;
  sessions_.erase(it);
}

void Tallies::Established(const Connection& connection, const Flow& start) {
  auto& who = applications_.Of(connection.who, connection.since);
  auto& link = links_.Of(connection.link, connection.since);
  auto& peer = peers_.Of(HostOf(connection.peer), connection.since);
  Live live;
  live.id = connection.id;
  live.session = connection.session;
  live.slot = connection.slot;
  live.local = connection.local;
  live.peer = connection.peer;
  live.passive = connection.passive;
  live.settling = connection.reattached;
  live.since = live.read = connection.since;
  live.who = who.key;
  live.link = link.key;
  live.last = start;
  live.of_who = &who.row;
  live.of_link = &link.row;
  live.of_peer = &peer.row;
  for (Row* row : {live.of_who, live.of_link, live.of_peer}) {
    ++row->connections;
    if (!connection.reattached) ++(connection.passive ? row->accepts : row->connects);
  }
  live_.insert_or_assign(connection.id, std::move(live));
}

void Tallies::Failed(const Connection& connection, std::string stage, const Status& why, Time now) {
  AddTo(total_.failures[{connection.link.adapter, connection.passive, std::move(stage), why.code(),
                         why.detail()}],
        1);
  ++applications_.Of(connection.who, now).row.failures;
  ++links_.Of(connection.link, now).row.failures;
  ++peers_.Of(HostOf(connection.peer), now).row.failures;
}

void Tallies::Ended(std::uint64_t id, const std::string& outcome, bool broken, Detail detail,
                    const Flow& last, Time now) {
  const auto it = live_.find(id);
  if (it == live_.end()) return;
  Live& live = it->second;
  if (live.slot) Add(live, last, now);
  for (Row* row : {live.of_who, live.of_link, live.of_peer}) {
    --row->connections;
    row->broken += broken;
  }
  AddTo(total_.ends[{live.link->adapter, outcome, detail}], 1);
  live_.erase(it);
}

void Tallies::Read(Time now, const Reader& reader) {
  for (auto& [id, live] : live_) {
    if (!live.slot) continue;
    if (const std::optional<Flow> flow = reader(live.session, *live.slot)) Add(live, *flow, now);
  }
}

void Tallies::Add(Live& live, const Flow& now, Time time) {
  if (live.settling) {
    live.last = now;
    live.read = time;
    live.settling = time - live.since < kSettling;
    return;
  }
  // One second more than has passed, because counters and clock are not read simultaneously.
  const double seconds = std::chrono::duration<double>(time - live.read).count() + 1;
  bool implausible = false;
  for (std::size_t i = 0; i < kCounts; ++i) {
    if (now[i] <= live.last[i]) continue;  // A counter that fell adds nothing until it passes its peak.
    const bool bytes =
        i == static_cast<std::size_t>(Count::kTxBytes) || i == static_cast<std::size_t>(Count::kRxBytes);
    const auto most =
        static_cast<std::uint64_t>(std::min(seconds * (bytes ? kMostBytes : kMostEvents), 9e18));
    std::uint64_t more = now[i] - live.last[i];
    if (more > most) {
      implausible = true;
      more = 0;
    }
    live.last[i] = now[i];
    AddTo(live.flow[i], more);
    for (Row* row : {live.of_who, live.of_link, live.of_peer}) AddTo(row->flow[i], more);
  }
  live.read = time;
  total_.implausible += implausible;
}

std::vector<Tallies::Live> Tallies::live() const {
  std::vector<Live> out;
  out.reserve(live_.size());
  for (const auto& [id, live] : live_) out.push_back(live);
  return out;
}

}  // namespace nd::ops
