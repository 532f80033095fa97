// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/drive/direct_policy.h"

#include <gtest/gtest.h>

namespace nd::provider::soft {
namespace {

std::uint32_t UsefulOnesUntilDirect(DirectPolicy& policy) {
  std::uint32_t count = 0;
  for (; !policy.direct(); ++count) policy.Useful();
  return count;
}

TEST(DirectPolicy, FewNotificationsWithCompletionsSuffice) {
  DirectPolicy policy;
  EXPECT_EQ(UsefulOnesUntilDirect(policy), DirectPolicy::kFirst);
}

TEST(DirectPolicy, EachOneInVainCostsMoreThanTheOneBefore) {
  DirectPolicy policy;
  std::uint32_t last = UsefulOnesUntilDirect(policy);
  for (int i = 0; i < 4; ++i) {
    policy.InVain();
    const std::uint32_t next = UsefulOnesUntilDirect(policy);
    EXPECT_EQ(next, 2 * last);
    last = next;
  }
  for (int i = 0; i < 100; ++i) policy.InVain();
  EXPECT_LE(UsefulOnesUntilDirect(policy), DirectPolicy::kMost) << "it is tried again";
}

TEST(DirectPolicy, ManyUsefulOnesMakeItForget) {
  DirectPolicy policy;
  for (int i = 0; i < 10; ++i) policy.InVain();
  for (std::uint32_t i = 0; i < DirectPolicy::kMost; ++i) policy.Useful();
  policy.InVain();
  EXPECT_EQ(UsefulOnesUntilDirect(policy), 2 * DirectPolicy::kFirst);
}

}  // namespace
}  // namespace nd::provider::soft
