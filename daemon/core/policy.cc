// SPDX-License-Identifier: Apache-2.0
// The rules' arithmetic; reading them from a file is the daemon's configuration, not this.
#include "daemon/core/policy.h"

#include <string_view>

#include "daemon/core/event.h"

namespace nd::core {
namespace {

// Default bounds of one user. A user must be able to fill the ephemeral range on two addresses.
constexpr std::uint32_t kSessions = 256;
constexpr std::uint32_t kConnectors = 65536;
constexpr std::uint32_t kListeners = 4096;
constexpr std::uint32_t kSharedEndpoints = 4096;
constexpr std::uint32_t kQueuePairs = 65536;
constexpr std::uint32_t kPorts = 65536;

// "/a" covers "/a" and "/a/b", never "/ab".
bool CoversPath(std::string_view prefix, std::string_view path) {
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || prefix.empty() || prefix == "/" || path[prefix.size()] == '/';
}

bool Matches(const Rule& rule, const Identity& who) {
  if (rule.uid && *rule.uid != who.uid) return false;
  if (rule.gid && *rule.gid != who.gid) return false;
  return !rule.cgroup || CoversPath(*rule.cgroup, who.cgroup);
}

std::string Label(const Rule& rule) {
  return rule.name.empty() ? "(unnamed)" : rule.name;
}

Verdict Decide(const std::vector<Rule>& rules, const Identity& who, const Address& address,
               std::optional<std::vector<Prefix>> Rule::*list, const char* verb) {
  for (const Rule& rule : rules) {
    const auto& prefixes = rule.*list;
    if (!prefixes || !Matches(rule, who)) continue;
    for (const Prefix& prefix : *prefixes) {
      if (prefix.Contains(address)) {
        return {true, Label(rule),
                "Rule " + Label(rule) + " allows to " + verb + " " + address.ToString() + "."};
      }
    }
    return {false, Label(rule),
            "Rule " + Label(rule) + " does not allow uid " + std::to_string(who.uid) + " to " + verb + " " +
                address.ToString() + "."};
  }
  return {true, "default", "No rule says anything about it, so it is allowed."};
}

}  // namespace

bool Prefix::Contains(const Address& address) const {
  if (!network.well_formed() || !address.well_formed() || address.family() != network.family()) return false;
  if (address.port() < first_port || address.port() > last_port) return false;
  const std::string_view a = address.ip(), n = network.ip();
  std::size_t whole = bits / 8u;
  if (whole > a.size()) whole = a.size();
  if (a.substr(0, whole) != n.substr(0, whole)) return false;
  const unsigned rest = bits % 8u;
  if (rest == 0 || whole == a.size()) return true;
  const unsigned mask = 0xFFu & (0xFFu << (8 - rest));
  return ((static_cast<unsigned char>(a[whole]) ^ static_cast<unsigned char>(n[whole])) & mask) == 0;
}

Verdict Policy::MayListen(const Identity& who, const Address& local) const {
  return Decide(rules_, who, local, &Rule::listen, "listen on");
}

Verdict Policy::MayConnect(const Identity& who, const Address& remote) const {
  return Decide(rules_, who, remote, &Rule::connect, "connect to");
}

Limits Policy::LimitsOf(const Identity& who) const {
  Limits limits;
  const auto take = [](std::optional<std::uint32_t>& into, const std::optional<std::uint32_t>& from) {
    if (!into) into = from;
  };
  const auto take_all = [&](const Limits& from) {
    take(limits.sessions, from.sessions);
    take(limits.connectors, from.connectors);
    take(limits.listeners, from.listeners);
    take(limits.shared_endpoints, from.shared_endpoints);
    take(limits.queue_pairs, from.queue_pairs);
    take(limits.ports, from.ports);
  };
  for (const Rule& rule : rules_) {
    if (Matches(rule, who)) take_all(rule.limits);
  }
  take_all({kSessions, kConnectors, kListeners, kSharedEndpoints, kQueuePairs, kPorts});
  return limits;
}

}  // namespace nd::core
