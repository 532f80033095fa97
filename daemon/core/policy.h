// SPDX-License-Identifier: Apache-2.0
// Who may listen and connect where, and how much of everything they may hold.
//
// First match wins, separately for permission and for each limit. A policy without rules allows all. Pure
// functions: the same question gets the same answer, and Explain() tells which rule gave it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

class Policy {
 public:
  Policy() = default;
  explicit Policy(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  Verdict MayListen(const Identity& who, const Address& local) const;
  Verdict MayConnect(const Identity& who, const Address& remote) const;
  // The first matching rule's bound per resource, else the built-in default (docs/configuration.md).
  Limits LimitsOf(const Identity& who) const;

  const std::vector<Rule>& rules() const { return rules_; }

 private:
  std::vector<Rule> rules_;
};

}  // namespace nd::core
