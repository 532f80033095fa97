// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/health_facts.h"

#include <gtest/gtest.h>

namespace nd::service {
namespace {

TEST(HealthFacts, HaveTheDescriptorsAndSockets) {
  HealthFacts facts;
  GatherHealth("/nonexistent-directory", {}, &facts);
  EXPECT_GT(facts.fds_open, 2u);
  EXPECT_EQ(facts.sockets.size(), 3u);
}

}  // namespace
}  // namespace nd::service
