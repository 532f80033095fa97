// SPDX-License-Identifier: Apache-2.0
// Controls one process that runs with the shim. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/crash/shim_control.h"

namespace nd::crash {

class Hold {
 public:
  // Uses a file of its own in `directory`. `harness`: the descriptor between the test and the process; calls
  // on it do not count.
  Hold(const std::string& directory, const std::string& name, int harness = -1);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  // While a Preload lives, processes that this process starts run with the shim under this control.
  class Preload {
   public:
    explicit Preload(const Hold& hold);
    ~Preload();
    Preload(const Preload&) = delete;
    Preload& operator=(const Preload&) = delete;
  };

  // Acts at the `nth` call of that kind from now on.
  void Arm(Point point, bool after, int nth = 1, Act act = Act::kStop);
  // Lets the first call of that kind at this place of the program fail (0: none), and notes the places of
  // all.
  void ArmFailure(Point point, std::uint64_t place, Act act);
  void Disarm();
  bool reached() const { return control_->reached != 0; }
  bool WaitReached(std::chrono::milliseconds patience) const;
  std::uint32_t counted() const { return control_->counted; }
  std::string call() const { return control_->call; }
  // Shifts the wall clock that the process sees by `offset`.
  void JumpTo(std::chrono::seconds offset) { control_->wall_offset = offset.count(); }
  // After ArmFailure(): the place of each counted call.
  std::vector<std::uint64_t> places() const;

 private:
  std::string path_;
  ShimControl* control_;
};

}  // namespace nd::crash
