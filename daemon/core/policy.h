// SPDX-License-Identifier: Apache-2.0
// Policy: where a client may listen and connect, and how many resources it may hold.
//
// The first matching rule decides, separately for permission and for each limit. A policy without rules
// allows everything. Pure functions; Explain() names the deciding rule.
//
// `listen` is about local addresses: where a user may listen, and which ports it may take by number, since
// nobody else can listen on a port that is taken. Port 0 takes no particular port and needs no permission.
// `connect` is about remote addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nd/types.h"

namespace nd::core {

struct Identity;

struct Prefix {
  Address network;
  std::uint8_t bits = 0;
  std::uint16_t first_port = 0, last_port = 65535;
  bool Contains(const Address& address) const;
};

// Upper bounds of one user (uid). 0 allows none; absent means that this rule sets no limit.
struct Limits {
  std::optional<std::uint32_t> sessions, connectors, listeners, shared_endpoints, queue_pairs, ports;
};

struct Rule {
  std::string name;
  // The clients of the rule; absent matches every client. `cgroup` matches as a prefix of the path.
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::string> cgroup;
  // Of the client's pod. A client whose pod the broker cannot name matches none of them.
  std::optional<std::string> pod_namespace, pod, service_account;
  // The allowed addresses; absent decides nothing, an empty list forbids.
  std::optional<std::vector<Prefix>> listen, connect;
  Limits limits;
};

struct Verdict {
  bool allowed = true;
  std::string rule;    // Name of the deciding rule, "default" when none did.
  std::string reason;  // One sentence.
};

enum class PolicyVerb : std::uint8_t {
  kListen,   // Listen; and Reattach of a passive connection.
  kBind,     // Bind, CreateSharedEndpoint and a Connect with a source: judged by `listen`.
  kConnect,  // Connect; and Reattach of an active connection.
};

// The part of one rule in a decision.
struct RuleStep {
  enum class Match : std::uint8_t {
    kOtherUid,     // The rule is for another user.
    kOtherGid,     // The rule is for another group.
    kOtherCgroup,  // The rule is for another control group.
    kOtherPod,     // The rule is for another pod, namespace of pods or service account.
    kSilent,       // The rule is for this client but does not decide this verb.
    kAllows,       // It decides: one of its prefixes contains the address,
    kForbids,      // none does.
  };
  std::string rule;  // As in Verdict.
  Match match = Match::kSilent;
  std::string reason;  // One sentence.
};

// The rules that were evaluated, in order; the last one decided, if any did.
struct Explanation {
  Verdict verdict;
  std::vector<RuleStep> steps;
};

// The user that rules and quotas see: uid 0 of a foreign namespace is the kernel's "nobody", 65534.
std::uint32_t UserOf(const Identity& who);

// True when the rule is about this client.
bool IsAbout(const Rule& rule, const Identity& who);

class Policy {
 public:
  Policy() = default;
  explicit Policy(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  Verdict Decide(PolicyVerb verb, const Identity& who, const Address& address) const;
  // The verdict and its derivation.
  Explanation Explain(PolicyVerb verb, const Identity& who, const Address& address) const;

  Verdict MayListen(const Identity& who, const Address& local) const {
    return Decide(PolicyVerb::kListen, who, local);
  }
  Verdict MayBind(const Identity& who, const Address& local) const {
    return Decide(PolicyVerb::kBind, who, local);
  }
  Verdict MayConnect(const Identity& who, const Address& remote) const {
    return Decide(PolicyVerb::kConnect, who, remote);
  }
  // The first matching rule's bound per resource, else the built-in default (docs/configuration.md).
  Limits LimitsOf(const Identity& who) const;

  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::vector<Rule> rules_;
};

}  // namespace nd::core
