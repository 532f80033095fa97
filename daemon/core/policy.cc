// SPDX-License-Identifier: Apache-2.0
// Evaluates rules; daemon/config_rules.cc reads them from the file.
#include "daemon/core/policy.h"

#include <algorithm>
#include <array>
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

// The number that the kernel shows for a user or group without a number in a namespace.
constexpr std::uint32_t kNobody = 65534;

std::uint32_t GroupOf(const Identity& who) {
  return who.foreign_namespace && who.gid == 0 ? kNobody : who.gid;
}

// "/a" covers "/a" and "/a/b", never "/ab".
bool CoversPath(std::string_view prefix, std::string_view path) {
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || prefix.empty() || prefix == "/" || path[prefix.size()] == '/';
}

using Match = RuleStep::Match;

const std::optional<std::vector<Prefix>>& ListOf(const Rule& rule, PolicyVerb verb) {
  return verb == PolicyVerb::kConnect ? rule.connect : rule.listen;
}

// The keys of a rule that name a pod, and the facts of a client that they are compared with.
struct PodKey {
  const char* key;
  std::optional<std::string> Rule::*wanted;
  std::string PodName::*own;
};
constexpr std::array kPodKeys = {
    PodKey{"pod-namespace", &Rule::pod_namespace, &PodName::namespace_name},
    PodKey{"pod", &Rule::pod, &PodName::name},
    PodKey{"service-account", &Rule::service_account, &PodName::service_account}};

// Returns the first key that names another pod than this one; null when there is none.
const PodKey* OtherPodKey(const Rule& rule, const PodName& pod) {
  const auto other = std::ranges::find_if(kPodKeys, [&](const PodKey& key) {
    const std::optional<std::string>& wanted = rule.*key.wanted;
    return wanted && (pod.*key.own != *wanted || wanted->empty());
  });
  return other == kPodKeys.end() ? nullptr : &*other;
}

// Returns kSilent when the rule is about this client, otherwise why it is not.
Match MatchOf(const Rule& rule, const Identity& who) {
  if (rule.uid && *rule.uid != UserOf(who)) return Match::kOtherUid;
  if (rule.gid && *rule.gid != GroupOf(who)) return Match::kOtherGid;
  if (rule.cgroup && !CoversPath(*rule.cgroup, who.cgroup)) return Match::kOtherCgroup;
  if (OtherPodKey(rule, who.pod) != nullptr) return Match::kOtherPod;
  return Match::kSilent;
}

// Evaluates one rule, for Decide and Explain.
Match Judge(const Rule& rule, PolicyVerb verb, const Identity& who, const Address& address) {
  const std::optional<std::vector<Prefix>>& prefixes = ListOf(rule, verb);
  const Match match = MatchOf(rule, who);
  if (match != Match::kSilent || !prefixes) return match;
  const bool allows = std::ranges::any_of(*prefixes, [&](const Prefix& p) { return p.Contains(address); });
  return allows ? Match::kAllows : Match::kForbids;
}

bool Decides(Match match) {
  return match == Match::kAllows || match == Match::kForbids;
}

std::string Label(const Rule& rule) {
  return rule.name.empty() ? "(unnamed)" : rule.name;
}

const char* Words(PolicyVerb verb) {
  switch (verb) {
    case PolicyVerb::kListen:
      return "listen on";
    case PolicyVerb::kBind:
      return "bind";
    case PolicyVerb::kConnect:
      break;
  }
  return "connect to";
}

Verdict VerdictOf(const Rule& rule, Match match, PolicyVerb verb, const Identity& who,
                  const Address& address) {
  if (match == Match::kAllows) {
    return {true, Label(rule),
            "Rule " + Label(rule) + " allows to " + Words(verb) + " " + address.ToString() + "."};
  }
  return {false, Label(rule),
          "Rule " + Label(rule) + " does not allow uid " + std::to_string(UserOf(who)) + " to " +
              Words(verb) + " " + address.ToString() + "."};
}

Verdict ByDefault() {
  return {true, "default", "No rule says anything about it, so it is allowed."};
}

// Returns true for an action that is allowed without a rule.
bool NeedsNoRule(PolicyVerb verb, const Address& address) {
  return verb == PolicyVerb::kBind && address.port() == 0;
}

Verdict AnyPort() {
  return {true, "default", "Port 0 takes any port that is free, which everybody may do."};
}

// Explains why a rule did not decide.
std::string PassedOver(const Rule& rule, Match match, PolicyVerb verb, const Identity& who) {
  switch (match) {
    case Match::kOtherUid:
      return "Rule " + Label(rule) + " is about uid " + std::to_string(*rule.uid) + ", not " +
             std::to_string(UserOf(who)) + ".";
    case Match::kOtherGid:
      return "Rule " + Label(rule) + " is about gid " + std::to_string(*rule.gid) + ", not " +
             std::to_string(GroupOf(who)) + ".";
    case Match::kOtherCgroup:
      return "Rule " + Label(rule) + " is about cgroup " + *rule.cgroup + ", not " +
             (who.cgroup.empty() ? std::string("(none)") : who.cgroup) + ".";
    case Match::kOtherPod: {
      const PodKey* const key = OtherPodKey(rule, who.pod);
      const std::string& own = who.pod.*key->own;
      return "Rule " + Label(rule) + " is about " + key->key + " " + *(rule.*key->wanted) + ", not " +
             (own.empty() ? std::string("(none)") : own) + ".";
    }
    default:
      return "Rule " + Label(rule) + " has no list of what it allows to " + Words(verb) + ".";
  }
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

std::uint32_t UserOf(const Identity& who) {
  return who.foreign_namespace && who.uid == 0 ? kNobody : who.uid;
}

bool IsAbout(const Rule& rule, const Identity& who) {
  return MatchOf(rule, who) == Match::kSilent;
}

Verdict Policy::Decide(PolicyVerb verb, const Identity& who, const Address& address) const {
  if (NeedsNoRule(verb, address)) return AnyPort();
  for (const Rule& rule : rules_) {
    const Match match = Judge(rule, verb, who, address);
    if (Decides(match)) return VerdictOf(rule, match, verb, who, address);
  }
  return ByDefault();
}

Explanation Policy::Explain(PolicyVerb verb, const Identity& who, const Address& address) const {
  if (NeedsNoRule(verb, address)) return {AnyPort(), {}};
  Explanation explanation;
  for (const Rule& rule : rules_) {
    const Match match = Judge(rule, verb, who, address);
    if (Decides(match)) {
      explanation.verdict = VerdictOf(rule, match, verb, who, address);
      explanation.steps.push_back({Label(rule), match, explanation.verdict.reason});
      return explanation;
    }
    explanation.steps.push_back({Label(rule), match, PassedOver(rule, match, verb, who)});
  }
  explanation.verdict = ByDefault();
  return explanation;
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
    if (IsAbout(rule, who)) take_all(rule.limits);
  }
  take_all({kSessions, kConnectors, kListeners, kSharedEndpoints, kQueuePairs, kPorts});
  return limits;
}

}  // namespace nd::core
