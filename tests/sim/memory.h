// SPDX-License-Identifier: Apache-2.0
// Simulates failed allocations of a broker. ndbrokerd ends at once then (daemon/ops/process.h), so the
// simulated one dies in the middle of its work, and none of the results become visible.
//
// `operator new` of the whole program is replaced; it fails only while Survives() runs code of the broker.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <utility>

#include "tests/sim/dice.h"

namespace nd::sim {

// During its lifetime, allocation number `at` of this thread, from 1 on, throws std::bad_alloc.
class Shortage {
 public:
  explicit Shortage(std::uint32_t at);
  ~Shortage();
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};

// During its lifetime no allocation of this thread fails, and none counts: the simulator works inside a piece
// of the broker's work.
class Plenty {
 public:
  Plenty();
  ~Plenty();
  Plenty(const Plenty&) = delete;
  Plenty& operator=(const Plenty&) = delete;

 private:
  const std::uint32_t before_;
};

class Memory {
 public:
  // `per_mille`: how often a piece of work meets a shortage. `met`: whether an allocation failed, or the work
  // ended before. The broker dies in both cases, because the number of allocations depends on the compiler
  // and must not decide the run. `swallowed` is asked first; true means that the exception would be caught:
  // the work is then skipped and the broker does not die.
  Memory(Dice& dice, const std::uint32_t& per_mille, std::function<bool()> swallowed,
         std::function<void(bool met)> on_death)
      : dice_(dice),
        per_mille_(per_mille),
        swallowed_(std::move(swallowed)),
        on_death_(std::move(on_death)) {}

  // Runs a piece of code of the broker. Returns false when the broker died in it.
  template <typename Work>
  bool Survives(Work&& work) {
    if (!dice_.Chance(per_mille_)) {
      std::forward<Work>(work)();
      return true;
    }
    const std::uint32_t at = 1 + dice_.Below(1u << dice_.Below(6));
    if (swallowed_()) return false;
    gone_ = true;
    try {
      const Shortage shortage(at);
      std::forward<Work>(work)();
    } catch (const std::bad_alloc&) {
      torn_ = true;
    }
    on_death_(torn_);
    return false;
  }
  // The broker is dead; its output is discarded.
  bool gone() const { return gone_; }
  // The broker died in the middle of its work: not even its destructors may run.
  bool torn() const { return torn_; }
  // Starts the next life.
  void Revive() { gone_ = torn_ = false; }

 private:
  Dice& dice_;
  const std::uint32_t& per_mille_;
  const std::function<bool()> swallowed_;
  const std::function<void(bool)> on_death_;
  bool gone_ = false, torn_ = false;
};

}  // namespace nd::sim
