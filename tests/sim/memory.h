// SPDX-License-Identifier: Apache-2.0
// Memory that a broker is refused. ndbrokerd ends at once then (daemon/ops/process.h): so the simulated one
// dies inside whatever it was doing, and nothing of what that was comes out.
//
// `operator new` of the whole program is replaced; it fails only while Lets() runs the broker's own code.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <utility>

#include "tests/sim/dice.h"

namespace nd::sim {

// While it lives, allocation number `at` of this thread, from 1 on, throws std::bad_alloc.
class Shortage {
 public:
  explicit Shortage(std::uint32_t at);
  ~Shortage();
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};

class Memory {
 public:
  // `per_mille`: how often a piece of work meets a shortage. `met`: whether an allocation failed, or the work
  // was over before; the broker dies of it in both cases, since how many allocations a piece of work needs is
  // the compiler's business and must not decide the run.
  // `swallowed`: asked first; true: somebody catches the exception, so the work is not done and nobody dies.
  Memory(Dice& dice, const std::uint32_t& per_mille, std::function<bool()> swallowed,
         std::function<void(bool met)> on_death)
      : dice_(dice),
        per_mille_(per_mille),
        swallowed_(std::move(swallowed)),
        on_death_(std::move(on_death)) {}

  // Runs a piece of the broker's code. False: the broker died in it.
  template <typename Work>
  bool Lets(Work&& work) {
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
  // What it says now is not heard by anybody.
  bool gone() const { return gone_; }
  // It stopped in the middle of something: not even its destructors may be run.
  bool torn() const { return torn_; }
  // The next life.
  void Revive() { gone_ = torn_ = false; }

 private:
  Dice& dice_;
  const std::uint32_t& per_mille_;
  const std::function<bool()> swallowed_;
  const std::function<void(bool)> on_death_;
  bool gone_ = false, torn_ = false;
};

}  // namespace nd::sim
