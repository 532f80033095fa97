// SPDX-License-Identifier: Apache-2.0
// Requests that fail: no receive, a receive that is too short, memory that may not be used.
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

TEST_P(QpTest, ND_241_SendWithoutReceiveTimesOut) {
  if (foreign()) GTEST_SKIP() << "a foreign peer does not confirm";
  Connect(16, {.rnr_timeout = ms(100)});
  Memory m = Mem(*a, 64);
  Sge one = m.At(0, 8);
  ASSERT_TRUE(a->qp->Send(Tag(1), {&one, 1}, 0).ok());
  ASSERT_TRUE(a->qp->Send(Tag(2), {&one, 1}, 0).ok());
  Completion done = a->Next();
  EXPECT_EQ(done.status, StatusCode::kIoTimeout);
  EXPECT_EQ(done.request_context, Tag(1));
  done = a->Next();
  EXPECT_EQ(done.status, StatusCode::kCanceled);
  EXPECT_TRUE(a->Until([&] { return a->closed == 1 && b->closed == 1; }));
}

TEST_P(QpTest, TheReceiverDecidesHowLongASendWaits) {
  Connect(16, {.rnr_timeout = ms(50)});
  EXPECT_EQ(b->qp->SetReceivePatience(ms(-1)).code(), StatusCode::kInvalidParameter);
  ASSERT_TRUE(b->qp->SetReceivePatience(Duration::max()).ok());
  Memory m = Mem(*a, 64), in = Mem(*b, 64);
  m.Fill(1);
  Sge one = m.At(0, 8), sink = in.At(0, 8);
  ASSERT_TRUE(a->qp->Send(Tag(1), {&one, 1}, 0).ok());
  std::this_thread::sleep_for(ms(300));  // Several times the patience that the tuning sets.
  ASSERT_TRUE(b->qp->Receive(Tag(2), {&sink, 1}).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(in.data, m.data, 8), 0);
  const Completion sent = a->Next();
  EXPECT_EQ(sent.status, StatusCode::kSuccess);
  EXPECT_EQ(sent.flags, 0);

  ASSERT_TRUE(b->qp->SetReceivePatience(ms(20)).ok());
  ASSERT_TRUE(a->qp->Send(Tag(3), {&one, 1}, 0).ok());
  EXPECT_TRUE(a->Until([&] { return a->closed == 1 && b->closed == 1; }));
  if (foreign()) return;  // Such a Send was complete when it was in the socket.
  const Completion late = a->Next();
  EXPECT_EQ(late.status, StatusCode::kIoTimeout);
  EXPECT_EQ(late.flags, kCompletionNoReceive);
}

// Each side may need the completion of its own requests before it can post the receive for the other side's
// Send.
TEST_P(QpTest, AnswersOvertakeASendThatWaitsForItsReceive) {
  Connect(16, {.rnr_timeout = 3 * kPatience});
  const bool ring = GetParam().link == Link::kShared || GetParam().link == Link::kSharedRingOnly;
  const std::size_t size =
      ring ? 16000 : 700'000;  // All of them: less than a ring, more than a socket buffer.
  Memory theirs = Mem(*a, 3 * size), mine = Mem(*b, 3 * size);
  theirs.Fill(1);
  Sge words = theirs.At(0, 1000);
  for (std::uintptr_t i = 1; i <= 2; ++i) ASSERT_TRUE(a->qp->Send(Tag(i), {&words, 1}, 0).ok());
  for (std::size_t i = 0; i < 3; ++i) {
    Sge in = mine.At(i * size, size);
    ASSERT_TRUE(b->qp->Read(Tag(10 + i), {&in, 1}, theirs.Address(i * size), theirs.token(), 0).ok());
  }
  for (std::uintptr_t i = 0; i < 3; ++i) {
    const Completion done = b->Next(kPatience / 2);
    EXPECT_EQ(done.status, StatusCode::kSuccess);
    EXPECT_EQ(done.request_context, Tag(10 + i));
  }
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 3 * size), 0);
  // The Sends are delivered afterwards, and answers in the usual order after them.
  std::memset(mine.data, 0, mine.size);
  for (std::uintptr_t i = 0; i < 2; ++i) {
    Sge in = mine.At(i * 1000, 1000);
    ASSERT_TRUE(b->qp->Receive(Tag(20 + i), {&in, 1}).ok());
    const Completion done = b->Next();
    EXPECT_EQ(done.status, StatusCode::kSuccess);
    EXPECT_EQ(done.request_context, Tag(20 + i));
    EXPECT_EQ(std::memcmp(mine.data + i * 1000, theirs.data, 1000), 0);
    EXPECT_EQ(a->Next().request_context, Tag(i + 1));
  }
  Sge in = mine.At(0, size);
  ASSERT_TRUE(b->qp->Read(Tag(30), {&in, 1}, theirs.Address(), theirs.token(), 0).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, size), 0);
}

TEST_P(QpTest, ND_236_LongerSendThanReceive) {
  Connect();
  Memory m = Mem(*a, 2048), r = Mem(*b, 2048);
  Sge out = m.At(0, 1024), in = r.At(0, 1023);
  ASSERT_TRUE(b->qp->Receive(Tag(1), {&in, 1}).ok());
  ASSERT_TRUE(b->qp->Receive(Tag(2), {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kBufferOverflow);
  EXPECT_EQ(b->Next().status, StatusCode::kCanceled);
  const StatusCode sent = a->Next().status;
  EXPECT_TRUE(sent == StatusCode::kRemoteError || (foreign() && sent == StatusCode::kSuccess)) << Name(sent);
}

TEST_P(QpTest, ND_239_RemoteAccessErrors) {
  enum What { kOverWrite, kOverRead, kBadToken, kNoWriteRight, kNoReadRight, kWrap, kLast };
  for (int what = 0; what < kLast; ++what) {
    Connect();
    Memory mine = Mem(*a, 8192);
    Memory theirs = Mem(*b, 4096,
                        what == kNoWriteRight  ? kAllowRemoteRead
                        : what == kNoReadRight ? kAllowRemoteWrite
                                               : kAllowRemoteRead | kAllowRemoteWrite);
    Memory posted = Mem(*b, 64);
    Sge in = posted.At(0, 64), one = mine.At(0, 8);
    ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    // Shares the buffers first, so that direct access is tested.
    const bool reading = what == kOverRead || what == kNoReadRight;
    if (what != kNoWriteRight && what != kNoReadRight) {
      ASSERT_TRUE(a->qp->Write(nullptr, {&one, 1}, theirs.Address(), theirs.token(), 0).ok());
      ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
    }
    std::uint64_t address = theirs.Address(what == kOverWrite || what == kOverRead ? 4090 : 0);
    std::uint32_t token = theirs.token();
    if (what == kBadToken) token ^= 1;
    if (what == kWrap) address = UINT64_MAX - 3;
    Status posting = reading ? a->qp->Read(Tag(7), {&one, 1}, address, token, 0)
                             : a->qp->Write(Tag(7), {&one, 1}, address, token, 0);
    ASSERT_TRUE(posting.ok());
    (void)a->qp->Send(Tag(8), {&one, 1}, 0);
    Completion done = a->Next();
    EXPECT_EQ(done.request_context, Tag(7));
    if (foreign() && !reading) {
      EXPECT_TRUE(done.status == StatusCode::kSuccess || done.status == StatusCode::kAccessViolation);
    } else {
      EXPECT_EQ(done.status, StatusCode::kAccessViolation) << what;
    }
    const StatusCode second = a->Next().status;
    EXPECT_TRUE(second == StatusCode::kCanceled || foreign()) << Name(second);
    EXPECT_EQ(b->Next().status, StatusCode::kCanceled) << what;
    EXPECT_TRUE(a->Until([&] { return a->closed == 1 && b->closed == 1; }));
  }
}

TEST_P(QpTest, LocalMemoryThatIsNotRegistered) {
  Connect();
  std::byte stray[64];
  Sge one{stray, 64, 12345};
  ASSERT_TRUE(a->qp->Send(Tag(1), {&one, 1}, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kAccessViolation);
  EXPECT_TRUE(a->Until([&] { return b->closed == 1; }));
}

}  // namespace
}  // namespace nd::provider::soft
