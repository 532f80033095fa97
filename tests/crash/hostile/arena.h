// SPDX-License-Identifier: Apache-2.0
// Runs attacks against real brokers while an honest tenant works, and judges the states: the broker lives,
// the tenant's operations succeed, no attack succeeds, and everything that the attackers held returns.
// Durations are printed; a stall of the loop is judged on request only. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/crash/hostile/attack.h"
#include "tests/crash/hostile/honest.h"
#include "tests/testing/daemon.h"
#include "tests/testing/process.h"

namespace nd::hostile {

struct Scale {
  int connects = 40;        // Of the honest tenant: before, and during each attack.
  bool brief = false;       // Checks states only and measures no durations.
  int seconds = 0;          // The shortest duration of an attack.
  int factor = 1;           // Multiplies the processes of each attack.
  bool loop_first = false;  // The kernel runs the broker's loop before every other thread.
  bool stalls = false;      // A stall of the loop beyond kStallUs on top of idle is a fault.
};

// The most by which an attack may lengthen the longest round of the loop.
inline constexpr double kStallUs = 5000;

class Arena {
 public:
  // `peers`: attackers are other hosts, so that the tenant's two sides use brokers of their own.
  Arena(const Scale& scale, bool peers);
  ~Arena();
  const std::string& error() const { return error_; }
  // Runs one attack and prints its row. Returns one line for each fault.
  std::vector<std::string> Run(const Attack& attack);
  // Runs them one after another without waiting for what the previous one left, then waits.
  std::vector<std::string> RunAll(std::span<const Attack> attacks);
  static void PrintHeading();
  // The worst ratios and the longest round of the loop of all runs, as lines "summary NAME KEY=VALUE ...".
  void PrintSummary() const;

 private:
  // The rounds of the loop since its start: for each bound of the histogram, the number of rounds that took
  // at most that long.
  struct Loop {
    double rounds = 0;
    std::vector<double> at_most;
    // The upper bound of the longest round since `before`, in microseconds.
    double LongestSince(const Loop& before) const;
  };
  struct Attackers;
  Loop ReadLoop();
  testing::Daemon& attacked() { return *brokers_.back(); }
  std::vector<std::string> Judge(const Attack& attack, const Measured& measured, Attackers& attackers);
  // Waits until the broker has no more objects than before the attacks.
  void AwaitBefore(std::vector<std::string>* faults);
  void Print(const std::string& name, const Measured& idle, const Measured& under, double longest_us);

  Scale scale_;
  bool peers_;
  bool other_user_;
  std::string error_;
  std::vector<std::unique_ptr<testing::Daemon>> brokers_;
  std::unique_ptr<Honest> honest_;
  Measured idle_;
  testing::Counts most_;  // Of each kind, the largest number that the broker had without an attack.
  double worst_operation_ = 0, worst_connect_ = 0, worst_message_ = 0;
  double idle_longest_us_ = 0, worst_longest_us_ = 0;
  std::string worst_name_;
};

// The main function of both programs: `peers` as for Arena.
int Main(int argc, char** argv, bool peers);

}  // namespace nd::hostile
