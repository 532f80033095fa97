// SPDX-License-Identifier: Apache-2.0
// Scans all slots for each decision: there are few, and a connection needs only one decision.
#include "daemon/ops/source_slots.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/os/ip_address.h"
#include "base/os/socket.h"

namespace nd::ops {

SourceSlots::Entry SourceSlots::Enter(Id id, const std::string& source) {
  // The new connection counts for its source.
  connections_[id] = {source, Turn::kSilent, ++turns_};
  Entry entry{true, {}};
  if (connections_.size() <= places_) return entry;
  const bool others = std::ranges::any_of(connections_, [id](const auto& other) {
    return other.first != id && other.second.turn == Turn::kSilent;
  });
  entry.evicted = Longest(others ? Turn::kSilent : Turn::kReader);
  entry.admitted = entry.evicted.has_value();
  connections_.erase(entry.evicted.value_or(id));
  return entry;
}

// The new connection itself is never the oldest of its source.
std::optional<SourceSlots::Id> SourceSlots::Longest(Turn turn) const {
  struct Source {
    std::size_t count = 0;
    Id id = 0;
    std::uint64_t since = 0;
  };
  std::map<std::string, Source> sources;
  for (const auto& [id, connection] : connections_) {
    if (connection.turn != turn) continue;
    Source& source = sources[connection.source];
    if (source.count++ == 0 || connection.since < source.since) {
      source.id = id;
      source.since = connection.since;
    }
  }
  const auto most = std::ranges::max_element(sources, [](const auto& a, const auto& b) {
    return std::pair(a.second.count, b.second.since) < std::pair(b.second.count, a.second.since);
  });
  return most == sources.end() ? std::nullopt : std::optional(most->second.id);
}

bool SourceSlots::Serve(Id id) {
  Connection& connection = connections_.at(id);
  std::size_t all = 0, own = 0;
  for (const auto& [other, its] : connections_) {
    if (its.turn != Turn::kServed || other == id) continue;
    ++all;
    own += its.source == connection.source;
  }
  if (all >= served_ || own >= served_ - served_ / 4) return false;
  connection.turn = Turn::kServed;
  return true;
}

void SourceSlots::AwaitReader(Id id) {
  Connection& connection = connections_.at(id);
  if (connection.turn == Turn::kReader) return;
  connection.turn = Turn::kReader;
  connection.since = ++turns_;
}

void SourceSlots::Leave(Id id) {
  connections_.erase(id);
}

namespace {

// The host of an IPv4 address; of an IPv6 address its network, because a host has as many addresses as it
// likes.
std::string NetworkOf(const Address& address) {
  const std::string_view ip = address.ip();
  std::array<std::uint8_t, 16> bytes{};
  std::ranges::copy(ip, bytes.begin());
  if (ip.size() == 4) return os::FormatIp(std::span(bytes).first(4));
  static constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (std::ranges::equal(kMapped, std::span(bytes).first(12))) return os::FormatIp(std::span(bytes).last(4));
  std::ranges::fill(std::span(bytes).last(8), std::uint8_t{0});
  return os::FormatIp(bytes) + "/64";
}

}  // namespace

std::string SourceOf(int socket) {
  const Address peer = os::PeerAddress(socket);
  if (peer.well_formed()) return NetworkOf(peer);
  const std::optional<std::uint32_t> user = os::PeerUser(socket);
  return user ? "uid " + std::to_string(*user) : "unknown";
}

}  // namespace nd::ops
