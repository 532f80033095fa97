// SPDX-License-Identifier: Apache-2.0
// kill -9 of each process at every step. The checks are the same each time: no operation hangs, the survivors
// are notified, and after a restart all counts are as before.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/crash/settings.h"
#include "tests/crash/witness.h"

namespace nd::crash {
namespace {

struct Victims {
  const char* name;
  unsigned who;
};
constexpr Victims kVictims[] = {
    {"Active", kA},
    {"Passive", kP},
    {"BrokerOfActive", kBrokerA},
    {"BrokerOfPassive", kBrokerP},
    {"BothBrokers", kBrokerA | kBrokerP},
    {"ActiveAndBroker", kA | kBrokerA},
    {"PassiveAndBroker", kP | kBrokerP},
    {"BothApplications", kA | kP},
};

class Kill : public ::testing::TestWithParam<std::tuple<Mode, Victims>> {};

TEST_P(Kill, AtEveryStep) {
  const auto& [mode, victims] = GetParam();
  if (mode.local && (victims.who == kBrokerP || victims.who == (kBrokerA | kBrokerP))) {
    GTEST_SKIP() << "one broker: BrokerOfActive is all of them";
  }
  auto stage = std::make_unique<Stage>(mode);
  ASSERT_EQ(stage->error(), "");
  int played = 0;
  for (const Step& step : Steps()) {
    if (!(mode.local ? step.local : step.iwarp)) continue;
    if (mode.tcp && !step.every_mode && !GetSettings().full) continue;
    SCOPED_TRACE(mode.name() + ", " + step.name + ", killed: " + Name(victims.who, mode));
    bool clean = true;
    const auto check = [&clean](const std::vector<std::string>& faults) {
      for (const std::string& fault : faults) {
        ADD_FAILURE() << fault;
        clean = false;
      }
    };
    {
      Scene scene;
      const std::string made = step.make(*stage, scene);
      if (!made.empty()) {
        ADD_FAILURE() << "the step was not reached: " << made << "\n" << stage->Dump();
        clean = false;
      }
      stage->Kill(victims.who, [&] { scene.Join(); });
      Witness witness(*stage, scene, step.name, victims.who);
      check(witness.Hear());
      stage->Revive();
      if (stage->error().empty()) check(witness.HearAgain());
      if (stage->error().empty()) check(stage->CloseAndCompare());
    }
    if (!stage->error().empty()) {
      ADD_FAILURE() << stage->error();
      clean = false;
    }
    ++played;
    if (!clean) {  // The leftovers of one step must not be reported again at the next.
      stage.reset();
      stage = std::make_unique<Stage>(mode);
      ASSERT_EQ(stage->error(), "");
    }
  }
  std::printf("%s: %d steps\n", mode.name().c_str(), played);
}

INSTANTIATE_TEST_SUITE_P(Crash, Kill,
                         ::testing::Combine(::testing::Values(Mode{true, false}, Mode{false, false},
                                                              Mode{true, true}, Mode{false, true}),
                                            ::testing::ValuesIn(kVictims)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

}  // namespace
}  // namespace nd::crash
