// SPDX-License-Identifier: Apache-2.0
// The simulator in CI: a thousand worlds, the same run twice, the same run on every machine, and planted
// faults.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "tests/sim/faults.h"
#include "tests/sim/golden.h"
#include "tests/sim/world.h"

namespace nd::sim {
namespace {

constexpr std::uint64_t kSeeds = 1000;

// The two halves are the thousand; each prints the goals that it reached.
class Worlds : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Worlds, HoldAllInvariants) {
  const std::uint64_t first = GetParam();
  Coverage coverage;
  std::uint64_t steps = 0, connected = 0, messages = 0;
  for (WorldOptions options{.seed = first}; options.seed < first + kSeeds / 2; ++options.seed) {
    const Outcome outcome = World(options, coverage).Run();
    ASSERT_EQ(outcome.violation, "") << outcome.tail << "\n" << outcome.line;
    steps += outcome.steps;
    connected += outcome.connected;
    messages += outcome.messages;
  }
  std::printf("%s", coverage.Table().c_str());
  EXPECT_GE(steps, kDefaultSteps * (kSeeds / 2));
  EXPECT_GE(connected, kSeeds);  // Connections succeed; not all are refused.
  EXPECT_GE(messages, kSeeds);
  for (const std::string& missing : coverage.Missing()) ADD_FAILURE() << "never reached: " << missing;
}
INSTANTIATE_TEST_SUITE_P(Half, Worlds, ::testing::Values(1, 501));

TEST(Determinism, SameSeedGivesTheSameRun) {
  for (const Golden& golden : kGolden) {
    Coverage one, two;
    const WorldOptions options{.seed = golden.seed};
    const Outcome first = World(options, one).Run();
    const Outcome second = World(options, two).Run();
    EXPECT_EQ(first.hash, second.hash) << golden.seed;
    EXPECT_EQ(first.steps, second.steps) << golden.seed;
  }
}

// A change of the core or of the simulator changes these hashes; then `ndsim --golden` prints the new table.
// Two builds of the same sources must agree on it.
TEST(Determinism, EveryBuildAgrees) {
  for (const Golden& golden : kGolden) {
    Coverage coverage;
    const Outcome outcome = World({.seed = golden.seed}, coverage).Run();
    EXPECT_EQ(outcome.steps, golden.steps) << "seed " << golden.seed;
    EXPECT_EQ(outcome.hash, golden.hash) << "seed " << golden.seed;
  }
}

// Each fault is detected within a few seeds, and the printed command reproduces the failure.
class Teeth : public ::testing::TestWithParam<Mistake> {};

TEST_P(Teeth, FaultIsDetectedAndReproduced) {
  const std::string name(GetParam().name);
  Coverage coverage;
  for (WorldOptions options{.seed = 1, .mistakes = {name}}; options.seed <= 60; ++options.seed) {
    const Outcome outcome = World(options, coverage).Run();
    if (outcome.violation.empty()) continue;
    EXPECT_NE(outcome.line.find("--seed=" + std::to_string(options.seed)), std::string::npos);
    EXPECT_NE(outcome.line.find("--until=" + std::to_string(outcome.steps)), std::string::npos);
    WorldOptions again = options;
    again.until = outcome.steps;
    // A violation that is visible only at rest needs the whole run.
    const Outcome shown = World(again, coverage).Run();
    const Outcome whole = World(options, coverage).Run();
    EXPECT_EQ(whole.violation, outcome.violation);
    EXPECT_EQ(whole.hash, outcome.hash);
    EXPECT_TRUE(shown.violation == outcome.violation || outcome.violation.find("rest") != std::string::npos)
        << outcome.violation;
    return;
  }
  FAIL() << name << " was not noticed in 60 worlds";
}
INSTANTIATE_TEST_SUITE_P(All, Teeth, ::testing::ValuesIn(kMistakes), [](const auto& given) {
  std::string name(given.param.name);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace nd::sim
