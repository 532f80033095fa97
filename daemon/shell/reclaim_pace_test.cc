// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/reclaim_pace.h"

#include <gtest/gtest.h>

namespace nd::service {
namespace {

using std::chrono::microseconds;

// Steps until the slice has settled; returns the time of the last step.
Duration Settle(ReclaimPace* pace, Duration per_object) {
  for (int i = 0; i < 20; ++i) pace->Took(per_object * pace->slice());
  return per_object * pace->slice();
}

TEST(ReclaimPace, CheapObjectsAreReclaimedInTheLargestSlices) {
  ReclaimPace pace;
  Settle(&pace, microseconds(1));
  EXPECT_EQ(pace.slice(), ReclaimPace::kLargest);
}

TEST(ReclaimPace, AStepTakesUnderAMillisecondWhateverAnObjectCosts) {
  for (const int cost : {5, 8, 20, 50, 100, 499}) {
    ReclaimPace pace;
    const Duration step = Settle(&pace, microseconds(cost));
    EXPECT_LE(step, ReclaimPace::kTarget) << cost;
    EXPECT_GE(step, ReclaimPace::kTarget / 2) << cost;
  }
}

TEST(ReclaimPace, ObjectsBeyondTheTargetAreReclaimedOneByOne) {
  ReclaimPace pace;
  EXPECT_EQ(Settle(&pace, microseconds(3000)), Duration(microseconds(3000)));
  EXPECT_EQ(pace.slice(), ReclaimPace::kSmallest);
}

TEST(ReclaimPace, OneSlowStepIsForgottenAfterTwoQuickOnes) {
  ReclaimPace pace;
  Settle(&pace, microseconds(1));
  pace.Took(std::chrono::seconds(1));
  EXPECT_EQ(pace.slice(), ReclaimPace::kLargest / 4);
  pace.Took(microseconds(1));
  pace.Took(microseconds(0));
  EXPECT_EQ(pace.slice(), ReclaimPace::kLargest);
}

}  // namespace
}  // namespace nd::service
