// SPDX-License-Identifier: Apache-2.0
// A test's hand on one process that runs with the shim. One thread.
#pragma once

#include <chrono>
#include <string>

#include "tests/crash/shim_control.h"

namespace nd::crash {

class Hold {
 public:
  // In a file of its own in `directory`. `harness`: the descriptor over which the test speaks to the process;
  // calls on it never count.
  Hold(const std::string& directory, const std::string& name, int harness = -1);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  // Processes that this one starts while a Preload lives have the shim, and this hand on them.
  class Preload {
   public:
    explicit Preload(const Hold& hold);
    ~Preload();
    Preload(const Preload&) = delete;
    Preload& operator=(const Preload&) = delete;
  };

  // At the `nth` call of that kind from now on.
  void Arm(Point point, bool after, int nth = 1, Act act = Act::kStop);
  void Disarm();
  bool reached() const { return control_->reached != 0; }
  bool WaitReached(std::chrono::milliseconds patience) const;
  std::uint32_t counted() const { return control_->counted; }
  std::string call() const { return control_->call; }

 private:
  std::string path_;
  ShimControl* control_;
};

}  // namespace nd::crash
