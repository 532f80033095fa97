// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/drive/spin_policy.h"

#include <gtest/gtest.h>

namespace nd::provider::soft {
namespace {

TEST(SpinPolicy, PollsForTheWholeTimeWhileThatPays) {
  SpinPolicy policy;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(policy.Next(), SpinPolicy::kWhole);
    policy.Paid();
  }
}

TEST(SpinPolicy, OneFruitlessWaitHalvesTheTime) {
  SpinPolicy policy;
  policy.DidNotPay();
  EXPECT_EQ(policy.Next(), SpinPolicy::kWhole / 2);
}

TEST(SpinPolicy, PeerOnTheSameCoreCostsAQuarterOfAMicrosecondAWait) {
  SpinPolicy policy;
  Duration all{};
  constexpr int kWaits = 10'000;
  for (int i = 0; i < kWaits; ++i) {
    all += policy.Next();
    policy.DidNotPay();
  }
  EXPECT_LE(all / kWaits, std::chrono::nanoseconds(250));
}

TEST(SpinPolicy, NoticesWithinATryThatThePeerHasMovedToAnotherCore) {
  // The peer sleeps too, and has to wake first.
  constexpr Duration kAnswer = std::chrono::microseconds(100);
  SpinPolicy policy;
  for (int i = 0; i < 1000; ++i) policy.DidNotPay();
  std::uint32_t waits = 0;
  for (; waits < 2 * SpinPolicy::kWaitsBetweenTries; ++waits) {
    if (policy.Next() >= kAnswer) break;
    policy.DidNotPay();
  }
  EXPECT_LE(waits, SpinPolicy::kWaitsBetweenTries);
  policy.Paid();
  EXPECT_EQ(policy.Next(), SpinPolicy::kWhole);
}

}  // namespace
}  // namespace nd::provider::soft
