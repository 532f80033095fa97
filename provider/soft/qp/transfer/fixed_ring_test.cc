// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/transfer/fixed_ring.h"

#include <gtest/gtest.h>

namespace nd::provider::soft {
namespace {

TEST(FixedRing, HoldsItsCapacity) {
  FixedRing<int> ring(3);
  EXPECT_TRUE(ring.empty());
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(ring.full());
    ring.Push(i);
  }
  EXPECT_TRUE(ring.full());
  int sum = 0;
  ring.ForEach([&](int entry) { sum += entry; });
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(ring.oldest(), 0);
  EXPECT_EQ(ring.Pop(), 0);
  EXPECT_EQ(ring.oldest(), 1);
  EXPECT_EQ(ring.size(), 2u);
  EXPECT_EQ(ring.pushed(), 3u);
}

TEST(FixedRing, WithoutCapacityIsAlwaysFull) {
  const FixedRing<int> ring(0);
  EXPECT_TRUE(ring.full());
  EXPECT_TRUE(ring.empty());
}

TEST(FixedRing, KeepsItsOrderWhenPositionsWrap) {
  for (std::uint8_t capacity = 1; capacity != 12; ++capacity) {
    FixedRing<int, std::uint8_t> ring(capacity);
    int pushed = 0, popped = 0;
    while (popped < 1000) {
      while (!ring.full()) ring.Push(pushed++);
      ASSERT_EQ(ring.size(), capacity);
      ASSERT_EQ(ring.Pop(), popped++) << "capacity " << int{capacity};
    }
  }
}

}  // namespace
}  // namespace nd::provider::soft
