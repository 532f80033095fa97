// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/cm/blocking_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

namespace nd::provider::verbs {
namespace {

TEST(BlockingPool, BlockedJobDoesNotDelayTheNext) {
  std::latch blocked(1), passed(1);
  BlockingPool pool(2);
  pool.Submit([&] { blocked.wait(); });
  pool.Submit([&] { passed.count_down(); });
  passed.wait();
  blocked.count_down();
}

TEST(BlockingPool, DestructorRunsEveryJobFirst) {
  std::atomic<int> done{0};
  {
    BlockingPool pool(3);
    for (int i = 0; i < 500; ++i) pool.Submit([&] { ++done; });
  }
  EXPECT_EQ(done, 500);
}

TEST(BlockingPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  {
    BlockingPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Submit([&order, i] { order.push_back(i); });
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace nd::provider::verbs
