// SPDX-License-Identifier: Apache-2.0
// One line of text per event and action: what is hashed, and what is shown of a failure.
//
// Lines contain only values that the simulation defines, never an address of memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "daemon/core/action.h"
#include "daemon/core/event.h"
#include "tests/sim/dice.h"

namespace nd::sim {

std::string Text(const core::Event& event);
std::string Text(const core::Action& action);
std::string Text(const Status& status);
// "ClientOp.Connect", "CmReplied"; "Complete", "CmReject".
const char* KindOf(const core::Event& event);
const char* KindOf(const core::Action& action);
const char* KindOf(const core::Op& op);

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
