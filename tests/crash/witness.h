// SPDX-License-Identifier: Apache-2.0
// Checks the survivors of a kill: no operation hangs, and a connection is established on both sides or known
// to have ended on each. One thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tests/crash/steps.h"

namespace nd::crash {

class Witness {
 public:
  Witness(Stage& stage, Scene& scene, const std::string& step, unsigned victims);
  // Asks every survivor. Returns one line for each error.
  std::vector<std::string> Hear();
  // After Revive(): checks that connections that survived their broker are attached again and hold their
  // ports.
  std::vector<std::string> HearAgain();

 private:
  // Waits for the status and adds a row to the table; a missing status is an error. With `connector` the row
  // shows its reason too.
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
  bool up_a_ = false, up_p_ = false;  // As reported to that side.
  bool outlived_ = false;
};

}  // namespace nd::crash
