// SPDX-License-Identifier: Apache-2.0
// The whole life of a connection, in which one process is killed at its k-th system call, for k = 1, 2, 3 ...
// until it survives. Every call is covered, however the code changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/crash/life.h"
#include "tests/crash/settings.h"

namespace nd::crash {
namespace {

constexpr int kFewestDeaths = 4;

class Sweep : public ::testing::TestWithParam<std::tuple<Mode, Victim>> {};

TEST_P(Sweep, DiesAtEachOfItsSystemCalls) {
  const auto& [mode, victim] = GetParam();
  auto stage = std::make_unique<Stage>(mode);
  ASSERT_EQ(stage->error(), "");
  if (mode.local && victim.who == kBrokerP) GTEST_SKIP() << "one broker: BrokerA is it";
  // Counts the calls of a life without a kill.
  stage->hold(victim.who).Arm(Point::kAnyCall, false, 1 << 30);
  Life whole(*stage);
  ASSERT_EQ(whole.Play(), "");
  ASSERT_EQ(whole.failed(), "");
  const auto calls = static_cast<int>(stage->hold(victim.who).counted());
  for (const std::string& fault : stage->CloseAndCompare()) ADD_FAILURE() << fault;
  const std::uint32_t points = GetSettings().points;
  int step = points == 0 ? 1 : std::max(1, calls / static_cast<int>(points));
  std::set<std::string> names;
  int deaths = 0, survived = 0;
  // The number varies, because a thread that waits may poll: the sweep ends after three lives in a row
  // without a kill, and goes back to the last kill with a smaller step when there were too few kills by then.
  for (int k = 1; survived < 3 && k < calls * 2 + 50; k += step) {
    SCOPED_TRACE(mode.name() + ", " + victim.name + " dies at its system call " + std::to_string(k));
    Hold& hold = stage->hold(victim.who);
    hold.Arm(Point::kAnyCall, k % 2 == 0, k, Act::kKill);
    Life life(*stage);
    const std::string hung = life.Play();
    hold.Disarm();
    bool clean = hung.empty();
    if (!hung.empty()) ADD_FAILURE() << hung << ", killed at " << hold.call() << "\n" << stage->Dump();
    if (hold.reached()) {
      survived = 0;
      ++deaths;
      names.insert(hold.call());
      stage->Kill(victim.who);
      stage->Revive();
    } else {
      ++survived;
      EXPECT_EQ(life.failed(), "");
      if (survived == 3 && deaths < kFewestDeaths && step > 1) {
        k = std::max(0, k - 3 * step);
        step = std::max(1, step / 4);
        survived = 0;
      }
    }
    if (stage->error().empty() && clean) {
      for (const std::string& fault : stage->CloseAndCompare()) {
        ADD_FAILURE() << "killed at " << hold.call() << ": " << fault;
        clean = false;
      }
    }
    if (!stage->error().empty()) ADD_FAILURE() << stage->error();
    if (!clean || !stage->error().empty()) {
      stage.reset();
      stage = std::make_unique<Stage>(mode);
      ASSERT_EQ(stage->error(), "");
    }
  }
  std::string list;
  for (const std::string& name : names) list += " " + name;
  std::printf("%s %s: %d system calls in a life, died %d times, at%s\n", mode.name().c_str(), victim.name,
              calls, deaths, list.c_str());
  EXPECT_GE(deaths, kFewestDeaths);
}

INSTANTIATE_TEST_SUITE_P(Crash, Sweep,
                         ::testing::Combine(::testing::Values(Mode{true, false}, Mode{false, false}),
                                            ::testing::ValuesIn(kVictims)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace nd::crash
