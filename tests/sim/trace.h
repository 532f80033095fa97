// SPDX-License-Identifier: Apache-2.0
// One line of text for each event and action, for the hash of a run and the report of a failure.
//
// Lines contain only values that the simulation defines, never an address of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "daemon/core/action.h"
#include "daemon/core/event.h"
#include "tests/sim/dice.h"

namespace nd::sim {

std::string Text(const core::Event& event);
std::string Text(const core::Action& action);
std::string Text(const Status& status);
// Returns a name such as "ClientOp.Connect", "CmReplied", "Complete" or "CmReject".
const char* KindOf(const core::Event& event);
const char* KindOf(const core::Action& action);
const char* KindOf(const session::Operation& op);
// Every name that KindOf() returns for an event or an action.
std::span<const char* const> EventKinds();
std::span<const char* const> ActionKinds();

class Trace {
 public:
  explicit Trace(bool print) : print_(print) {}
  void Line(std::string text);
  std::uint64_t hash() const { return hash_.value(); }
  std::string Tail() const;

 private:
  static constexpr std::size_t kTail = 60;
  const bool print_;
  Hash hash_;
  std::deque<std::string> tail_;
};

}  // namespace nd::sim
