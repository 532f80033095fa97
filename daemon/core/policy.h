// SPDX-License-Identifier: Apache-2.0
// Who may listen and connect where, and how much of everything they may hold.
//
// First match wins, separately for permission and for each limit. A policy without rules allows all. Pure
// functions: the same question gets the same answer, and Explain() tells which rule gave it.
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

// Upper bounds of one user (uid); 0 means none at all, absent means no limit from this rule.
struct Limits {
  std::optional<std::uint32_t> sessions, connectors, listeners, shared_endpoints, queue_pairs, ports;
};

struct Rule {
  std::string name;
  // Whom it is about; absent matches everybody. `cgroup` matches as a prefix of the path.
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::string> cgroup;
  // What it allows; absent says nothing about it, empty list forbids.
  std::optional<std::vector<Prefix>> listen, connect;
  Limits limits;
};

struct Verdict {
  bool allowed = true;
  std::string rule;    // Name of the deciding rule, "default" when none did.
  std::string reason;  // One sentence.
};

enum class PolicyVerb : std::uint8_t { kListen, kConnect };

// What one rule had to do with a question.
struct RuleStep {
  enum class Match : std::uint8_t {
    kOtherUid,     // The rule is about another user,
    kOtherGid,     // group,
    kOtherCgroup,  // control group.
    kSilent,       // It is about this client and says nothing about the verb.
    kAllows,       // It decides: one of its prefixes contains the address,
    kForbids,      // none does.
  };
  std::string rule;  // As in Verdict.
  Match match = Match::kSilent;
  std::string reason;  // One sentence.
};

// The rules that were looked at, in order; the last one is the deciding one, if any decided.
struct Explanation {
  Verdict verdict;
  std::vector<RuleStep> steps;
};

// Whether the rule is about this client at all.
bool IsAbout(const Rule& rule, const Identity& who);

class Policy {
 public:
  Policy() = default;
  explicit Policy(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  Verdict Decide(PolicyVerb verb, const Identity& who, const Address& address) const;
  // The same verdict, and how it came about.
  Explanation Explain(PolicyVerb verb, const Identity& who, const Address& address) const;

  Verdict MayListen(const Identity& who, const Address& local) const {
    return Decide(PolicyVerb::kListen, who, local);
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
