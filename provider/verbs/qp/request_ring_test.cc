// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/qp/request_ring.h"

#include <gtest/gtest.h>

#include "provider/verbs/qp/memory.h"

namespace nd::provider::verbs {
namespace {

void Post(RequestRing* ring, int value) {
  PostedRequest* const request = ring->Next();
  ASSERT_NE(request, nullptr);
  request->context = reinterpret_cast<void*>(static_cast<std::intptr_t>(value));
  ring->Commit();
}

int Value(const PostedRequest* request) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(request->context));
}

TEST(RequestRing, HoldsExactlyItsDepth) {
  RequestRing ring(5);
  for (int i = 0; i < 5; ++i) Post(&ring, i);
  EXPECT_EQ(ring.Next(), nullptr);
  EXPECT_EQ(ring.outstanding(), 5u);
  ASSERT_NE(ring.FinishOldest(), nullptr);
  ring.Retire();
  EXPECT_NE(ring.Next(), nullptr);
}

TEST(RequestRing, CompletionFinishesTheSilentRequestsBeforeIt) {
  RequestRing ring(8);
  for (int i = 0; i < 6; ++i) Post(&ring, i);
  PostedRequest* const request = ring.Finish(4);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(Value(request), 4);
  ring.Retire();
  EXPECT_EQ(ring.outstanding(), 1u);
  EXPECT_EQ(ring.Finish(4), nullptr) << "twice";
  EXPECT_EQ(ring.Finish(3), nullptr) << "already passed";
  EXPECT_EQ(ring.Finish(6), nullptr) << "never posted";
}

TEST(RequestRing, NumbersWrapAround) {
  RequestRing ring(3);
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t sequence = ring.next();
    Post(&ring, i);
    PostedRequest* const request = ring.Finish(sequence);
    ASSERT_NE(request, nullptr) << i;
    EXPECT_EQ(Value(request), i);
    ring.Retire();
  }
  EXPECT_EQ(ring.outstanding(), 0u);
}

TEST(RequestRing, RefusedPostLeavesTheRingUnchanged) {
  RequestRing ring(1);
  Post(&ring, 1);
  ring.TakeBack();
  EXPECT_EQ(ring.outstanding(), 0u);
  Post(&ring, 2);
  EXPECT_EQ(Value(ring.FinishOldest()), 2);
}

}  // namespace
}  // namespace nd::provider::verbs
