// SPDX-License-Identifier: Apache-2.0
// Entries of one (adapter, family, port) are neighbours in the map, so the wildcard rule checks neighbours
// only.
#include "daemon/core/port_space.h"

#include <array>
#include <string>
#include <utility>

#include "daemon/core/check.h"

namespace nd::core {
namespace {

Address Unspecified(Address::Family family) {
  return family == Address::Family::kIpv4 ? Address::V4({}) : Address::V6({});
}

// The lowest key of a port number: an empty address sorts first.
PortKey FirstOf(AdapterNo adapter, Address::Family family, std::uint16_t port) {
  return {adapter, family, port, Address()};
}

bool SameNumber(const PortKey& a, const PortKey& b) {
  return a.adapter == b.adapter && a.family == b.family && a.port == b.port;
}

// Returns the first entry of `map` that overlaps with `key` by the wildcard rule and that `wanted` accepts.
template <typename Map, typename Wanted>
typename Map::const_iterator Covering(const Map& map, const PortKey& key, Wanted wanted) {
  for (auto it = map.lower_bound(FirstOf(key.adapter, key.family, key.port));
       it != map.end() && SameNumber(it->first, key); ++it) {
    const bool same = key.ip.unspecified() || it->first.ip.unspecified() || it->first.ip == key.ip;
    if (same && wanted(it->second)) return it;
  }
  return map.end();
}

}  // namespace

PortAnswer MayTake(Holding existing, Newcomer newcomer) {
  using enum PortAnswer;
  static constexpr std::array<std::array<PortAnswer, 5>, 7> kTable = {{
      // Listen             exclusive           CreateEndpoint      ConnectShared      inbound
      {kOk, kOk, kOk, kNotApplicable, kRefused},                                               // nothing
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kOk},          // listener
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kRefused},     // closing
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kRefused},     // connector
      {kSharingViolation, kSharingViolation, kSharingViolation, kOk, kRefused},                // endpoint
      {kSharingViolation, kSharingViolation, kSharingViolation, kSharingViolation, kRefused},  // closing
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kRefused},     // lease
  }};
  return kTable[static_cast<std::size_t>(existing)][static_cast<std::size_t>(newcomer)];
}

Holding PortEntry::holding() const {
  switch (kind) {
    case PortKind::kListener:
      return closing ? Holding::kListenerClosing : Holding::kListener;
    case PortKind::kSharedEndpoint:
      return closing ? Holding::kEndpointClosing : Holding::kEndpoint;
    case PortKind::kLease:
      return Holding::kLease;
    case PortKind::kConnector:
      break;
  }
  return Holding::kConnector;
}

PortSpace::PortSpace(std::uint64_t seed, std::uint16_t first, std::uint16_t last)
    : first_(first), last_(last), prng_(seed) {}

Status PortSpace::Check(const PortKey& key, Newcomer newcomer, const Process* who) const {
  const bool wild = key.ip.unspecified();
  for (auto it = entries_.lower_bound(FirstOf(key.adapter, key.family, key.port));
       it != entries_.end() && SameNumber(it->first, key); ++it) {
    if (!wild && !it->first.ip.unspecified() && it->first.ip != key.ip) continue;
    if (MayTake(it->second.holding(), newcomer) == PortAnswer::kOk) continue;
    if (it->second.kind == PortKind::kLease) {
      const PortOwner& former = it->second.owner;
      if (who != nullptr && IsKeptFor(former.process(), *who)) continue;
      return {StatusCode::kSharingViolation,
              it->first.local().ToString() + " is kept for " +
                  (former.pid != 0 ? "process " + std::to_string(former.pid) + " of " : std::string()) +
                  "uid " + std::to_string(former.uid) +
                  ", which had it before the broker restarted, until it takes it back or the time of "
                  "reclaim-grace in [broker] is over."};
    }
    return {StatusCode::kSharingViolation,
            key.local().ToString() + " is held by a " + Name(it->second.kind) + " on " +
                it->first.local().ToString() + " of process " + std::to_string(it->second.owner.pid) +
                (it->second.closing ? " that was closed but still has connections." : ".")};
  }
  return {};
}

std::vector<PortKey> PortSpace::Leases(const PortKey& key,
                                       const std::function<bool(const Process&)>& of) const {
  std::vector<PortKey> leases;
  const bool wild = key.ip.unspecified();
  for (auto it = entries_.lower_bound(FirstOf(key.adapter, key.family, key.port));
       it != entries_.end() && SameNumber(it->first, key); ++it) {
    const bool overlaps = wild || it->first.ip.unspecified() || it->first.ip == key.ip;
    if (overlaps && it->second.kind == PortKind::kLease && of(it->second.owner.process())) {
      leases.push_back(it->first);
    }
  }
  return leases;
}

Status PortSpace::CheckReserved(const PortKey& key, std::uint32_t uid) const {
  const auto found =
      Covering(reservations_, key, [uid](const PortReservation& other) { return other.uid != uid; });
  if (found == reservations_.end()) return {};
  const PortReservation& r = found->second;
  return {StatusCode::kSharingViolation, found->first.local().ToString() +
                                             " is reserved by the administrator" +
                                             (r.uid ? " for uid " + std::to_string(*r.uid) : std::string()) +
                                             (r.comment.empty() ? "." : ": " + r.comment)};
}

Status PortSpace::CheckReserve(const PortKey& key) const {
  if (Status held = Check(key, Newcomer::kExclusive); !held.ok()) return held;
  const auto found = Covering(reservations_, key, [](const PortReservation&) { return true; });
  if (found == reservations_.end()) return {};
  const std::string& comment = found->second.comment;
  return {StatusCode::kSharingViolation, found->first.local().ToString() + " is reserved already" +
                                             (comment.empty() ? "." : ": " + comment)};
}

void PortSpace::Reserve(const PortKey& key, PortReservation reservation) {
  reservation.created = next_created_++;
  const bool added = reservations_.insert({key, std::move(reservation)}).second;
  ND_CORE_CHECK(added);
  Refresh(key);
}

std::optional<PortReservation> PortSpace::Unreserve(const PortKey& key) {
  const auto found = reservations_.find(key);
  if (found == reservations_.end()) return std::nullopt;
  std::optional<PortReservation> reservation = std::move(found->second);
  reservations_.erase(found);
  Refresh(key);
  return reservation;
}

bool PortSpace::Taken(AdapterNo adapter, const Address& ip, std::uint16_t port) const {
  const PortKey key{adapter, ip.family(), port, ip};
  const bool wild = ip.unspecified();
  for (auto it = entries_.lower_bound(FirstOf(adapter, ip.family(), port));
       it != entries_.end() && SameNumber(it->first, key); ++it) {
    if (wild || it->first.ip.unspecified() || it->first.ip == ip) return true;
  }
  return Covering(reservations_, key, [](const PortReservation&) { return true; }) != reservations_.end();
}

EphemeralPool& PortSpace::Pool(AdapterNo adapter, const Address& ip) {
  const PoolKey key{adapter, ip};
  const auto found = pools_.find(key);
  if (found != pools_.end()) return found->second;
  EphemeralPool& pool = pools_.try_emplace(key, first_, last_, prng_.Next()).first->second;
  const auto end = PortKey{adapter, ip.family(), last_, Unspecified(ip.family())};
  for (auto it = entries_.lower_bound(FirstOf(adapter, ip.family(), first_));
       it != entries_.end() && it->first.adapter == adapter && it->first.family == ip.family() &&
       it->first.port <= end.port;
       ++it) {
    if (Taken(adapter, ip, it->first.port)) pool.Remove(it->first.port);
  }
  for (const auto& [reserved, unused] : reservations_) {
    if (reserved.adapter != adapter || reserved.family != ip.family()) continue;
    if (reserved.port >= first_ && reserved.port <= last_ && Taken(adapter, ip, reserved.port)) {
      pool.Remove(reserved.port);
    }
  }
  return pool;
}

Result<std::uint16_t> PortSpace::Choose(AdapterNo adapter, const Address& local) {
  const std::optional<std::uint16_t> port = Pool(adapter, local.WithPort(0)).Oldest();
  if (port) return *port;
  return Status(StatusCode::kTooManyAddresses, "Every port from " + std::to_string(first_) + " to " +
                                                   std::to_string(last_) + " of " + local.IpToString() +
                                                   " is in use.");
}

void PortSpace::Refresh(const PortKey& key) {
  const auto refresh = [&](const Address& ip, EphemeralPool& pool) {
    if (Taken(key.adapter, ip, key.port)) {
      pool.Remove(key.port);
    } else {
      pool.PutBack(key.port);
    }
  };
  if (key.ip.unspecified()) {
    for (auto it = pools_.lower_bound(PoolKey{key.adapter, Address()});
         it != pools_.end() && it->first.adapter == key.adapter; ++it) {
      if (it->first.ip.family() == key.family) refresh(it->first.ip, it->second);
    }
    return;
  }
  for (const Address& ip : {key.ip, Unspecified(key.family)}) {
    const auto pool = pools_.find(PoolKey{key.adapter, ip});
    if (pool != pools_.end()) refresh(ip, pool->second);
  }
}

PortEntry& PortSpace::Add(const PortKey& key, PortEntry entry) {
  entry.references = 1;
  entry.created = next_created_++;
  const auto [it, added] = entries_.insert({key, std::move(entry)});
  ND_CORE_CHECK(added);
  if (IsEphemeral(key.port)) {
    ++ephemeral_used_[key.adapter];
    CountHeld(key, it->second.owner.uid, true);
  }
  Refresh(key);
  return it->second;
}

void PortSpace::AddReference(const PortKey& key) {
  PortEntry* const entry = Find(key);
  ND_CORE_CHECK(entry != nullptr);
  ++entry->references;
}

std::optional<PortEntry> PortSpace::Release(const PortKey& key) {
  const auto found = entries_.find(key);
  ND_CORE_CHECK(found != entries_.end() && found->second.references > 0);
  if (--found->second.references > 0) return std::nullopt;
  std::optional<PortEntry> last = std::move(found->second);
  entries_.erase(found);
  if (IsEphemeral(key.port)) {
    CountHeld(key, last->owner.uid, false);
    const auto used = ephemeral_used_.find(key.adapter);
    ND_CORE_CHECK(used != ephemeral_used_.end() && used->second > 0);
    if (--used->second == 0) ephemeral_used_.erase(used);
  }
  Refresh(key);
  return last;
}

PortEntry* PortSpace::Find(const PortKey& key) {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

const PortEntry* PortSpace::Find(const PortKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

std::optional<PortKey> PortSpace::Match(AdapterNo adapter, const Address& local) const {
  const PortKey exact = PortKey::Of(adapter, local);
  if (entries_.contains(exact)) return exact;
  const PortKey wild = PortKey::Of(adapter, Unspecified(local.family()).WithPort(local.port()));
  if (entries_.contains(wild)) return wild;
  return std::nullopt;
}

void PortSpace::SetRange(std::uint16_t first, std::uint16_t last) {
  if (first == first_ && last == last_) return;
  first_ = first;
  last_ = last;
  pools_.clear();  // Rebuilt without the held ports when next needed.
  ephemeral_used_.clear();
  ephemeral_held_.clear();
  for (const auto& [key, entry] : entries_) {
    if (!IsEphemeral(key.port)) continue;
    ++ephemeral_used_[key.adapter];
    CountHeld(key, entry.owner.uid, true);
  }
}

void PortSpace::ForgetPools(AdapterNo adapter) {
  auto pool = pools_.lower_bound(PoolKey{adapter, Address()});
  while (pool != pools_.end() && pool->first.adapter == adapter) pool = pools_.erase(pool);
}

void PortSpace::CountHeld(const PortKey& key, std::uint32_t uid, bool taken) {
  for (const Address& ip : {key.ip, Address()}) {
    const HeldKey at{key.adapter, key.family, ip, uid};
    if (taken) {
      ++ephemeral_held_[at];
      continue;
    }
    const auto found = ephemeral_held_.find(at);
    ND_CORE_CHECK(found != ephemeral_held_.end() && found->second > 0);
    if (--found->second == 0) ephemeral_held_.erase(found);
  }
}

std::uint32_t PortSpace::Held(const HeldKey& key) const {
  const auto found = ephemeral_held_.find(key);
  return found == ephemeral_held_.end() ? 0 : found->second;
}

PortUse PortSpace::EphemeralUse(const PortKey& key, std::uint32_t uid) {
  PortUse use;
  use.range = std::uint32_t{last_} - first_ + 1;
  use.free = Pool(key.adapter, key.ip).size();
  if (key.ip.unspecified()) {
    use.held = Held({key.adapter, key.family, Address(), uid});
  } else {
    use.held = Held({key.adapter, key.family, key.ip, uid}) +
               Held({key.adapter, key.family, Unspecified(key.family), uid});
  }
  return use;
}

std::uint32_t PortSpace::EphemeralUsed(AdapterNo adapter) const {
  const auto found = ephemeral_used_.find(adapter);
  return found == ephemeral_used_.end() ? 0 : found->second;
}

}  // namespace nd::core
