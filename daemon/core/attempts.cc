// SPDX-License-Identifier: Apache-2.0
// A turn walks an ordered map from the key that was served last, so that every key has its turn.
#include "daemon/core/attempts.h"

#include "daemon/core/check.h"

namespace nd::core {
namespace {

// Returns the first element after `last`, wrapping around, that `accept` takes; end() when there is none.
template <typename Map, typename Accept>
typename Map::iterator InTurn(Map& map, const typename Map::key_type& last, Accept accept) {
  const auto start = map.upper_bound(last);
  for (auto it = start; it != map.end(); ++it) {
    if (accept(*it)) return it;
  }
  for (auto it = map.begin(); it != start; ++it) {
    if (accept(*it)) return it;
  }
  return map.end();
}

}  // namespace

void Attempts::Add(Handle connector, std::uint32_t uid, const Address& destination) {
  const std::uint64_t order = next_order_++;
  const bool added = entries_.try_emplace(connector.value, Entry{uid, order, destination}).second;
  ND_CORE_CHECK(added);
  users_[uid].lines[destination].emplace(order, connector);
}

absl::btree_map<Address, Attempts::Line>::iterator Attempts::LineInTurn(User& user) {
  if (!MayFly(user.flights, flying_, limit_)) return user.lines.end();
  return InTurn(user.lines, user.served, [this](const auto& line) {
    const auto to = flights_to_.find(line.first);
    return MayFly(to == flights_to_.end() ? 0 : to->second, flying_, limit_);
  });
}

std::optional<Handle> Attempts::Next() {
  if (waiting() == 0 || flying_ >= limit_) return std::nullopt;
  const auto next = InTurn(users_, served_,
                           [this](auto& user) { return LineInTurn(user.second) != user.second.lines.end(); });
  if (next == users_.end()) return std::nullopt;
  User& user = next->second;
  const auto line = LineInTurn(user);
  const Handle connector = line->second.begin()->second;
  served_ = next->first;
  user.served = line->first;
  ++flights_to_[line->first];
  ++user.flights;
  ++flying_;
  entries_.find(connector.value)->second.order = 0;
  line->second.erase(line->second.begin());
  if (line->second.empty()) user.lines.erase(line);
  return connector;
}

Attempts::Place Attempts::PlaceOf(Handle connector) const {
  const auto found = entries_.find(connector.value);
  if (found == entries_.end()) return Place::kNone;
  return found->second.order == 0 ? Place::kFlies : Place::kWaits;
}

Attempts::Place Attempts::Remove(Handle connector) {
  const auto found = entries_.find(connector.value);
  if (found == entries_.end()) return Place::kNone;
  const Entry entry = found->second;
  entries_.erase(found);
  User& user = users_.find(entry.uid)->second;
  if (entry.order == 0) {
    ND_CORE_CHECK(flying_ > 0 && user.flights > 0);
    --flying_;
    --user.flights;
    const auto to = flights_to_.find(entry.destination);
    if (--to->second == 0) flights_to_.erase(to);
  } else {
    const auto line = user.lines.find(entry.destination);
    line->second.erase(entry.order);
    if (line->second.empty()) user.lines.erase(line);
  }
  ForgetUserIfIdle(entry.uid);
  return entry.order == 0 ? Place::kFlies : Place::kWaits;
}

void Attempts::ForgetUserIfIdle(std::uint32_t uid) {
  const auto user = users_.find(uid);
  if (user->second.flights == 0 && user->second.lines.empty()) users_.erase(user);
}

}  // namespace nd::core
