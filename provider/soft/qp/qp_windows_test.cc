// SPDX-License-Identifier: Apache-2.0
// Memory windows: their rights, their bounds and their end.
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

TEST_P(QpTest, ND_237_Windows) {
  Connect();
  Memory mine = Mem(*a, 65536), theirs = Mem(*b, 65536, kAllowLocalWrite);
  mine.Fill(2);
  auto window = b->device->CreateWindow().value();
  EXPECT_EQ(window->remote_token(), 0u);
  ASSERT_TRUE(b->qp
                  ->BindWindow(Tag(1), *theirs.region, *window, theirs.data + 4096, 8192,
                               kOpAllowRead | kOpAllowWrite)
                  .ok());
  EXPECT_EQ(b->Next().type, RequestType::kBind);
  EXPECT_EQ(theirs.region->Deregister().code(), StatusCode::kDeviceBusy);
  Sge out = mine.At(0, 8192);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(a->qp->Write(nullptr, {&out, 1}, theirs.Address(4096), window->remote_token(), 0).ok());
    ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
    Sge in = mine.At(16384, 8192);
    ASSERT_TRUE(a->qp->Read(nullptr, {&in, 1}, theirs.Address(4096), window->remote_token(), 0).ok());
    ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
    EXPECT_EQ(std::memcmp(mine.data, mine.data + 16384, 8192), 0);
  }
  const std::uint32_t old = window->remote_token();
  ASSERT_TRUE(b->qp->Invalidate(Tag(2), *window, 0).ok());
  EXPECT_EQ(b->Next().type, RequestType::kInvalidate);
  ASSERT_TRUE(b->qp->BindWindow(Tag(3), *theirs.region, *window, theirs.data, 4096, kOpAllowRead).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  EXPECT_NE(window->remote_token(), old);
  // The peer may invalidate it with a Send.
  Memory r = Mem(*b, 64);
  Sge in = r.At(0, 64);
  ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->SendAndInvalidate(nullptr, {}, 0, window->remote_token()).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  EXPECT_TRUE(theirs.region->Deregister().ok());
  ASSERT_TRUE(a->qp->Read(nullptr, {&out, 1}, theirs.Address(4096), old, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kAccessViolation);
}

TEST_P(QpTest, WindowBelongsToItsQueuePair) {
  Connect();
  auto other = std::make_unique<End>();
  auto second = b->device->CreateQueuePair(b->Options()).value();
  HandOffs both = MakeHandOffs(GetParam().link);
  ASSERT_TRUE(other->qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(second->Attach(std::move(both.passive)).ok());
  Memory theirs = Mem(*b, 4096), mine = Mem(*other, 4096), own = Mem(*a, 4096);
  auto window = b->device->CreateWindow().value();
  ASSERT_TRUE(b->qp->BindWindow(nullptr, *theirs.region, *window, theirs.data, 4096, kOpAllowRead).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  Sge in = own.At(0, 64), bad = mine.At(0, 64);
  ASSERT_TRUE(a->qp->Read(nullptr, {&in, 1}, theirs.Address(), window->remote_token(), 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(other->qp->Read(nullptr, {&bad, 1}, theirs.Address(), window->remote_token(), 0).ok());
  EXPECT_EQ(other->Next().status, StatusCode::kAccessViolation);
  second->Drop();
}

}  // namespace
}  // namespace nd::provider::soft
