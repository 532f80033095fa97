// SPDX-License-Identifier: Apache-2.0
#include "base/ring_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace nd {
namespace {

TEST(RingQueue, KeepsTheOrderWhileItGrowsAndWraps) {
  RingQueue<std::unique_ptr<int>> queue;
  int in = 0, out = 0;
  for (int round = 1; round <= 40; ++round) {
    for (int i = 0; i < 2 * round; ++i) queue.Push(std::make_unique<int>(in++));
    for (int i = 0; i < round; ++i) EXPECT_EQ(*queue.Take(), out++);
    for (std::size_t i = 0; i < queue.size(); ++i) EXPECT_EQ(*queue[i], out + static_cast<int>(i));
  }
  while (!queue.empty()) EXPECT_EQ(*queue.Take(), out++);
  EXPECT_EQ(out, in);
}

TEST(RingQueue, ElementsLiveOnlyInIt) {
  RingQueue<std::shared_ptr<int>> queue;
  std::weak_ptr<int> seen;
  for (int i = 0; i < 5; ++i) {
    auto made = std::make_shared<int>(i);
    seen = made;
    queue.Push(std::move(made));
  }
  while (queue.size() > 1) queue.Take();
  EXPECT_FALSE(seen.expired());
  queue.Take();
  EXPECT_TRUE(seen.expired());
}

TEST(RingQueue, DroppedElementsAreDestroyedAndTheirPlacesAreNew) {
  RingQueue<std::shared_ptr<int>> queue;
  const auto made = std::make_shared<int>(7);
  for (int i = 0; i < 4; ++i) queue.Extend() = made;
  EXPECT_EQ(made.use_count(), 5);
  queue.Drop();
  EXPECT_EQ(made.use_count(), 4);
  EXPECT_EQ(queue.Extend(), nullptr) << "the place of the dropped one";
  EXPECT_EQ(queue.size(), 4u);
  while (!queue.empty()) queue.Drop();
  EXPECT_EQ(made.use_count(), 1);
}

struct CountedElement {
  CountedElement() { ++live; }
  CountedElement(CountedElement&&) noexcept { ++live; }
  CountedElement& operator=(CountedElement&&) = default;
  ~CountedElement() { --live; }
  static inline int live = 0;
};

TEST(RingQueue, KeepsLittleMemoryWhenItIsEmpty) {
  RingQueue<CountedElement> queue;
  for (int i = 0; i < 1000; ++i) queue.Push({});
  EXPECT_GE(CountedElement::live, 1000);
  while (!queue.empty()) queue.Take();
  EXPECT_LE(CountedElement::live, 64);
}

}  // namespace
}  // namespace nd
