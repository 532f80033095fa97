// SPDX-License-Identifier: Apache-2.0
// The wall clock of every process jumps by years, and nothing expires: time-outs and graces are measured with
// the monotonic clock.
#include <gtest/gtest.h>

#include <random>

#include "tests/crash/life.h"
#include "tests/crash/settings.h"

namespace nd::crash {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class Clocks : public ::testing::TestWithParam<Mode> {};

TEST_P(Clocks, WallClockThatJumpsByYearsEndsNothing) {
  Stage stage(GetParam());
  ASSERT_EQ(stage.error(), "");
  Actor &a = stage.app(0), &p = stage.app(1);
  const std::uint16_t port = stage.NewPort();
  const Listener l = p.CreateListener();
  const Qp aq = a.CreateQp(), pq = p.CreateQp();
  const Connector ac = a.CreateConnector(), pc = p.CreateConnector(), waiting = p.CreateConnector();
  ASSERT_TRUE(l.Bind(stage.address(1, port)).ok() && l.Listen().ok());
  ASSERT_TRUE(ac.Bind(stage.address(0, 0)).ok());
  const Outcome connect = ac.Connect(aq, stage.address(1, port));
  ASSERT_TRUE(l.GetConnectionRequest(pc).Wait().ok());
  const Outcome accept = pc.Accept(pq);
  ASSERT_TRUE(connect.Wait().ok() && ac.CompleteConnect().Wait().ok() && accept.Wait().ok());
  const Outcome pending = l.GetConnectionRequest(waiting);
  std::mt19937 random(11);
  std::uniform_int_distribution<int> years(-10, 10);
  for (int jump = 0; jump < (GetSettings().full ? 1000 : 60); ++jump) {
    const seconds offset = hours(24 * 365) * years(random);
    for (const Who who : {kA, kP, kBrokerA, kBrokerP}) stage.hold(who).JumpTo(offset);
    ASSERT_EQ(Traffic(a, aq, p, pq), "") << "after a jump to " << offset.count() << " s";
    ASSERT_TRUE(pending.Wait(milliseconds(1)).pending()) << "after a jump to " << offset.count() << " s";
    if (jump % 10 != 0) continue;
    Life life(stage);
    ASSERT_EQ(life.Play(), "") << "after a jump to " << offset.count() << " s";
    ASSERT_EQ(life.failed(), "");
    EXPECT_TRUE(a.Connected() && p.Connected());
  }
  for (const Who who : {kA, kP, kBrokerA, kBrokerP}) stage.hold(who).JumpTo(seconds(0));
  EXPECT_TRUE(a.SessionEvents().empty() && p.SessionEvents().empty()) << "a session was lost";
  for (const std::string& fault : stage.CloseAndCompare()) ADD_FAILURE() << fault;
}

INSTANTIATE_TEST_SUITE_P(Crash, Clocks, ::testing::Values(Mode{true, false}, Mode{false, false}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace nd::crash
