// SPDX-License-Identifier: Apache-2.0
// What the living learn after a kill, and whether that is enough: no operation hangs, and a connection is up
// on both sides or known to be over on each. One thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/crash/steps.h"

namespace nd::crash {

class Witness {
 public:
  Witness(Stage& stage, Scene& scene, const std::string& step, unsigned victims);
  // Asks everybody alive. What is wrong, one line each.
  std::vector<std::string> Hear();
  // After Revive(): connections that outlived their broker are in its books again, and their port is theirs.
  std::vector<std::string> HearAgain();

 private:
  // Waits; adds a row to the table; a status that does not come is a fault.
  // With `connector` the reason that it gives is shown, too.
  Status Await(const char* side, const char* operation, const Outcome& outcome,
               const Connector* connector = nullptr);
  void HearActive();
  void HearPassive();
  void HearQueues();
  void Fault(const std::string& what) { faults_.push_back(what); }

  Stage& stage_;
  Scene& scene_;
  std::string step_, victim_;
  unsigned victims_;
  std::chrono::steady_clock::time_point killed_ = std::chrono::steady_clock::now();
  std::vector<std::string> faults_;
  bool up_a_ = false, up_p_ = false;  // As that side was told.
  bool outlived_ = false;
};

}  // namespace nd::crash
