// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/drive/take_ready.h"

#include <gtest/gtest.h>

#include <vector>

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

struct FakeWatch {
  std::size_t Take(std::span<int>, Duration longest) {
    longest == Duration::zero() ? ++polls : ++sleeps;
    slept = longest;
    return polls >= ready_at || longest != Duration::zero() ? 1 : 0;
  }
  int ready_at = 1 << 30, polls = 0, sleeps = 0;
  Duration slept{};
};

struct TakeReadyTest : ::testing::Test {
  std::size_t Take(Duration longest) { return TakeReady(watch, std::span<int>(ready), longest, spin); }
  FakeWatch watch;
  SpinPolicy spin;
  std::vector<int> ready = std::vector<int>(4);
};

TEST_F(TakeReadyTest, WhatComesSoonNeedsNoSleep) {
  watch.ready_at = 3;
  EXPECT_EQ(Take(ms(1000)), 1u);
  EXPECT_EQ(watch.polls, 3);
  EXPECT_EQ(watch.sleeps, 0);
  EXPECT_EQ(spin.Next(), SpinPolicy::kWhole);
}

TEST_F(TakeReadyTest, PollingThatDoesNotPayBecomesShorter) {
  const Time begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Take(ms(1000)), 1u);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, SpinPolicy::kWhole);
  EXPECT_EQ(watch.sleeps, 1);
  EXPECT_LE(watch.slept, ms(1000) - SpinPolicy::kWhole);
  EXPECT_EQ(spin.Next(), SpinPolicy::kWhole / 2);
}

TEST_F(TakeReadyTest, PollingThatNeverPaysCostsNoSystemCall) {
  for (int i = 0; i < 20; ++i) Take(ms(1000));
  const int polls = watch.polls, sleeps = watch.sleeps;
  Take(ms(1000));
  EXPECT_EQ(watch.polls, polls);
  EXPECT_EQ(watch.sleeps, sleeps + 1);
}

TEST_F(TakeReadyTest, TheSleepMayHaveNoEnd) {
  EXPECT_EQ(Take(ms(-1)), 1u);
  EXPECT_GT(watch.polls, 1);
  EXPECT_EQ(watch.sleeps, 1);
  EXPECT_EQ(watch.slept, ms(-1));
}

TEST_F(TakeReadyTest, WhatIsReadyAtOnceChangesNothing) {
  spin.DidNotPay();
  watch.ready_at = 1;
  EXPECT_EQ(Take(ms(1000)), 1u);
  EXPECT_EQ(spin.Next(), SpinPolicy::kWhole / 2);
}

TEST_F(TakeReadyTest, WithWorkThatIsDueItDoesNotPoll) {
  EXPECT_EQ(Take(Duration::zero()), 0u);
  EXPECT_EQ(watch.polls, 1);
  EXPECT_EQ(watch.sleeps, 0);
}

TEST_F(TakeReadyTest, ItPollsNoLongerThanItMaySleep) {
  Take(std::chrono::nanoseconds(1));
  EXPECT_LE(watch.polls, 3);
}

}  // namespace
}  // namespace nd::provider::soft
