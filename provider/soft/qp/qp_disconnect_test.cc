// SPDX-License-Identifier: Apache-2.0
// Flush, the disconnects of both sides, and a queue pair that is dropped.
#include <thread>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

TEST_P(QpTest, FlushCancelsInOrder) {
  Connect(16, {.rnr_timeout = std::chrono::seconds(20)});
  Memory m = Mem(*a, 4096), r = Mem(*b, 4096);
  Sge in = m.At(0, 64), out = m.At(64, 64), sink = r.At(0, 64);
  for (std::uintptr_t i = 0; i < 5; ++i) ASSERT_TRUE(a->qp->Receive(Tag(i), {&in, 1}).ok());
  EXPECT_TRUE(a->qp->Flush().ok());
  for (std::uintptr_t i = 0; i < 5; ++i) {
    const Completion done = a->Next();
    EXPECT_EQ(done.status, StatusCode::kCanceled);
    EXPECT_EQ(done.request_context, Tag(i));
  }
  if (foreign()) return;
  for (std::uintptr_t i = 10; i < 15; ++i) ASSERT_TRUE(a->qp->Send(Tag(i), {&out, 1}, 0).ok());
  EXPECT_TRUE(a->qp->Flush().ok());
  for (std::uintptr_t i = 10; i < 15; ++i) {
    const Completion done = a->Next();
    EXPECT_EQ(done.status, StatusCode::kCanceled);
    EXPECT_EQ(done.request_context, Tag(i));
  }
  // Whole messages were flushed, so the connection still works.
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&sink, 1}).ok());
  ASSERT_TRUE(a->qp->Send(Tag(99), {&out, 1}, 0).ok());
  const Completion done = a->Next();
  EXPECT_EQ(done.status, StatusCode::kSuccess);
  EXPECT_EQ(done.request_context, Tag(99));
}

TEST_P(QpTest, FlushOfANeverConnectedQueuePair) {
  a = std::make_unique<End>();
  Memory m = Mem(*a, 64);
  Sge in = m.At(0, 64);
  ASSERT_TRUE(a->qp->Receive(Tag(1), {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Receive(Tag(2), {&in, 1}).ok());
  ASSERT_TRUE(a->cq->Notify(NotifyType::kAny).ok());
  EXPECT_TRUE(a->qp->Flush().ok());
  EXPECT_EQ(a->Next().request_context, Tag(1));
  EXPECT_EQ(a->Next().request_context, Tag(2));
}

TEST_P(QpTest, DisconnectIsGracefulAndKeepsThePeersReceives) {
  Connect();
  Memory m = Mem(*a, 4096), r = Mem(*b, 4096);
  Sge out = m.At(0, 8), in = r.At(0, 64);
  for (std::uintptr_t i = 1; i <= 3; ++i) ASSERT_TRUE(b->qp->Receive(Tag(i), {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Receive(Tag(50), {&out, 1}).ok());
  ASSERT_TRUE(a->qp->Send(Tag(1), {&out, 1}, 0).ok());
  std::atomic<int> done{0};
  StatusCode status{};
  a->qp->Disconnect(std::chrono::seconds(10), [&](const Status& s) {
    status = s.code();
    ++done;
  });
  EXPECT_EQ(a->qp->Send(nullptr, {&out, 1}, 0).code(), StatusCode::kConnectionInvalid);
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);   // The Send was completed.
  EXPECT_EQ(a->Next().status, StatusCode::kCanceled);  // The receive was canceled.
  ASSERT_TRUE(a->Until([&] { return done == 1 && b->closed == 1; }));
  EXPECT_EQ(status, StatusCode::kSuccess);
  EXPECT_EQ(b->reason.load(), DisconnectReason::kPeerDisconnected);
  EXPECT_EQ(a->closed, 0);
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  Completion none;
  EXPECT_EQ(b->cq->Poll({&none, 1}), 0u)
      << Name(none.status) << " " << none.request_context;  // c.3: not by a goodbye alone.
  ASSERT_TRUE(b->qp->Send(Tag(9), {&in, 1}, 0).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kCanceled);
  b->qp->Disconnect(std::chrono::seconds(10), [&](const Status& s) {
    EXPECT_TRUE(s.ok());
    ++done;
  });
  EXPECT_EQ(done, 2);
  EXPECT_EQ(b->Next().request_context, Tag(2));
  EXPECT_EQ(b->Next().request_context, Tag(3));
  EXPECT_EQ(b->closed, 1);
}

TEST_P(QpTest, CrossingDisconnects) {
  for (int round = 0; round < 30; ++round) {
    Connect();
    std::atomic<int> good{0};
    std::thread other(
        [&] { b->qp->Disconnect(std::chrono::seconds(10), [&](const Status& s) { good += s.ok(); }); });
    a->qp->Disconnect(std::chrono::seconds(10), [&](const Status& s) { good += s.ok(); });
    other.join();
    ASSERT_TRUE(a->Until([&] { return good == 2; })) << round;
  }
}

TEST_P(QpTest, DropIsReportedAsNeitherGoodbyeNorDeath) {
  Connect();
  Memory m = Mem(*a, 64), r = Mem(*b, 64);
  Sge in = r.At(0, 64), own = m.At(0, 64);
  ASSERT_TRUE(b->qp->Receive(Tag(1), {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Receive(Tag(2), {&own, 1}).ok());
  a->qp->Drop();
  EXPECT_EQ(a->Next().status, StatusCode::kCanceled);
  EXPECT_EQ(b->Next().status, StatusCode::kCanceled);
  ASSERT_TRUE(b->Until([&] { return b->closed == 1; }));
  EXPECT_EQ(b->reason.load(), DisconnectReason::kUnknown);
  EXPECT_TRUE(b->seen->cause.message().starts_with("The other side ended it: ")) << b->seen->cause.ToString();
  EXPECT_EQ(a->closed, 0);
}

TEST_P(QpTest, DisconnectTimesOutWithoutAnAnswer) {
  a = std::make_unique<End>();
  HandOffs both = MakeHandOffs(GetParam().link);  // The passive end is held, and never read.
  ASSERT_TRUE(a->qp->Attach(std::move(both.active)).ok());
  Memory m = Mem(*a, 64);
  Sge in = m.At(0, 64);
  ASSERT_TRUE(a->qp->Receive(nullptr, {&in, 1}).ok());
  std::atomic<int> done{0};
  StatusCode status{};
  a->qp->Disconnect(ms(50), [&](const Status& s) {
    status = s.code();
    ++done;
  });
  ASSERT_TRUE(a->Until([&] { return done == 1; }));
  EXPECT_EQ(status, StatusCode::kIoTimeout);
  EXPECT_EQ(a->Next().status, StatusCode::kCanceled);
}

}  // namespace
}  // namespace nd::provider::soft
