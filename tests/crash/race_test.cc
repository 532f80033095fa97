// SPDX-License-Identifier: Apache-2.0
// cancel, accept, reject, complete, close, disconnect, notify, flush from several threads of two processes on
// real sockets: every operation completes exactly once, and no resource remains.
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "tests/crash/settings.h"
#include "tests/crash/stage.h"

namespace nd::crash {
namespace {

constexpr std::uint16_t kPort = 7000;

// A line of the report counts statuses; checks that `operation` succeeded at least once.
bool Succeeded(const std::string& report, const std::string& operation) {
  const std::size_t begin = report.find(" " + operation + ":");
  return begin != std::string::npos &&
         report.substr(begin, report.find('\n', begin) - begin).find(" SUCCESS ") != std::string::npos;
}

class Races : public ::testing::TestWithParam<Mode> {};

TEST_P(Races, EveryOperationCompletesOnce) {
  Stage stage(GetParam());
  ASSERT_EQ(stage.error(), "");
  Channel apps[2];
  for (Channel& app : apps) {
    SpawnOptions spawn;
    spawn.arguments = {BinaryDirectory() + "/nd_crash", "--app"};
    app.Start(spawn);
  }
  const auto play = [&](std::uint32_t rounds, bool compare) {
    std::string reports[2];
    const auto run = [&](int side) {
      reports[side] = apps[side].Call(
          "active=" + std::to_string(side == 0 ? 1 : 0) + " broker=" + stage.broker(side).directory() +
          " rounds=" + std::to_string(rounds) + " compare=" + std::to_string(compare ? 1 : 0) +
          " from=" + stage.address(0, 0).ToString() + " to=" + stage.address(1, kPort).ToString());
      if (reports[side].empty()) reports[side] = "the application is gone";
    };
    std::thread passive([&] { run(1); });
    // A Connect without a listener has one outcome only, so it does not race.
    const bool listens = Eventually([&] { return stage.broker(1).Count().listeners == 1; });
    EXPECT_TRUE(listens);
    if (listens) run(0);
    if (reports[0].substr(0, 2) != "ok") apps[1].process().Signal(SIGKILL);
    passive.join();
    return std::pair(reports[0], reports[1]);
  };
  const auto expect_ok = [&](const std::pair<std::string, std::string>& reports) {
    EXPECT_EQ(reports.first.substr(0, 2), "ok") << reports.first;
    EXPECT_EQ(reports.second.substr(0, 2), "ok") << reports.second;
  };
  // Libraries keep some resources, such as the thread of the first connection. Both processes make one
  // connection first, and the counted run is compared with that state.
  for (int run = 0;; ++run) {
    ASSERT_LT(run, 20) << "no connection came about";
    const auto reports = play(60, false);
    expect_ok(reports);
    if (HasFailure()) return;
    if (Succeeded(reports.first, "CompleteConnect") && Succeeded(reports.second, "Accept")) break;
  }
  const auto reports = play(GetSettings().races, true);
  expect_ok(reports);
  std::printf("%s\n  active: %s\n  passive: %s\n", GetParam().name().c_str(), reports.first.c_str(),
              reports.second.c_str());
  for (Channel& app : apps) app.Stop();
  for (const std::string& fault : stage.CloseAndCompare()) ADD_FAILURE() << fault;
}

INSTANTIATE_TEST_SUITE_P(Crash, Races,
                         ::testing::Values(Mode{true, false}, Mode{false, false}, Mode{false, true}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace nd::crash
