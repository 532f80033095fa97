// SPDX-License-Identifier: Apache-2.0
// Scans all slots for each decision: there are few, and a connection needs only one decision.
#include "daemon/ops/source_slots.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

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

std::string SourceOf(int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return "unknown";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  }
  if (storage.ss_family == AF_INET6) {
    in6_addr network = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&network)) {
      return ::inet_ntop(AF_INET, &network.s6_addr[12], text.data(), text.size());
    }
    std::memset(&network.s6_addr[8], 0, 8);
    return std::string(::inet_ntop(AF_INET6, &network, text.data(), text.size())) + "/64";
  }
  ucred peer{};
  length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return "unknown";
  return "uid " + std::to_string(peer.uid);
}

}  // namespace nd::ops
