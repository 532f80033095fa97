// SPDX-License-Identifier: Apache-2.0
// Every operation and every status of the data path, over every kind of transport.
#include <thread>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

INSTANTIATE_TEST_SUITE_P(Links, QpTest,
                         testing::Values(Case{Link::kShared, true}, Case{Link::kShared, false},
                                         Case{Link::kSharedRingOnly, true}, Case{Link::kIwarp, false},
                                         Case{Link::kIwarpForeign, false}),
                         [](const auto& c) {
                           return std::string(NameOf(c.param.link)) +
                                  (c.param.shared_memory ? "Buffer" : "Heap");
                         });

TEST_P(QpTest, SendsOfEverySizeArriveInOrder) {
  Connect();
  Memory from = Mem(*a, 4 << 20), to = Mem(*b, 4 << 20);
  from.Fill(1);
  std::size_t n = 0;
  for (std::size_t size :
       {0u, 1u, 8u, 31u, 32u, 33u, 63u, 256u, 1459u, 4096u, 8191u, 65536u, 70001u, 1u << 20, 4u << 20}) {
    std::memset(to.data, 0, to.size);
    Sge in = to.At(0, size + (size < to.size ? 1 : 0));
    ASSERT_TRUE(b->qp->Receive(Tag(++n), {&in, 1}).ok());
    Sge out = from.At(0, size);
    ASSERT_TRUE(a->qp->Send(Tag(n), {&out, 1}, 0).ok());
    const Completion got = b->Next();
    EXPECT_EQ(got.status, StatusCode::kSuccess) << size;
    EXPECT_EQ(got.bytes_transferred, size);
    EXPECT_EQ(got.request_context, Tag(n));
    EXPECT_EQ(got.queue_pair_context, b.get());
    EXPECT_EQ(std::memcmp(from.data, to.data, size), 0) << size;
    const Completion sent = a->Next();
    EXPECT_EQ(sent.status, StatusCode::kSuccess);
    EXPECT_EQ(sent.type, RequestType::kSend);
    EXPECT_EQ(sent.bytes_transferred, size);
  }
}

TEST_P(QpTest, WritesAndReadsOfEverySize) {
  Connect();
  Memory mine = Mem(*a, 5 << 20), theirs = Mem(*b, 5 << 20);
  unsigned seed = 0;
  for (int round = 0; round < 2; ++round) {  // The second time buffers are shared already.
    for (std::size_t size :
         {0u, 1u, 8u, 32u, 33u, 4095u, 16384u, 16385u, 65536u, 70001u, 1u << 20, 4u << 20}) {
      mine.Fill(++seed);
      std::memset(theirs.data, 0, theirs.size);
      Sge out = mine.At(3, size);
      ASSERT_TRUE(a->qp->Write(Tag(1), {&out, 1}, theirs.Address(5), theirs.token(), 0).ok());
      Sge back = mine.At(0, size);
      Completion done = a->Next();
      EXPECT_EQ(done.status, StatusCode::kSuccess) << size;
      EXPECT_EQ(done.type, RequestType::kWrite);
      if (!foreign()) {
        EXPECT_EQ(std::memcmp(mine.data + 3, theirs.data + 5, size), 0) << size;
      }
      ASSERT_TRUE(a->qp->Read(Tag(2), {&back, 1}, theirs.Address(5), theirs.token(), 0).ok());
      done = a->Next();
      EXPECT_EQ(done.status, StatusCode::kSuccess) << size;
      EXPECT_EQ(done.type, RequestType::kRead);
      EXPECT_EQ(done.bytes_transferred, size);
      EXPECT_EQ(std::memcmp(mine.data, theirs.data + 5, size), 0) << size;
      EXPECT_EQ(theirs.data[4], std::byte{0});
      EXPECT_EQ(theirs.data[5 + size], std::byte{0});
    }
  }
}

TEST_P(QpTest, ScatterGatherAndInline) {
  Connect();
  Memory from = Mem(*a, 1 << 20), to = Mem(*b, 1 << 20);
  from.Fill(9);
  for (std::size_t piece : {3u, 100u, 5000u, 60000u}) {
    std::vector<Sge> out, in;
    std::vector<std::byte> expected;
    for (std::size_t i = 0; i < kMaxSge; ++i) {
      const std::size_t length = i == 5 ? 0 : piece + i;
      out.push_back(from.At(i * (piece + 20), length));
      expected.insert(expected.end(), from.data + i * (piece + 20), from.data + i * (piece + 20) + length);
      in.push_back(to.At(i * (piece + 30), piece + 16));
    }
    ASSERT_TRUE(b->qp->Receive(nullptr, in).ok());
    ASSERT_TRUE(a->qp->Send(nullptr, out, 0).ok());
    EXPECT_EQ(b->Next().bytes_transferred, expected.size());
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
    std::vector<std::byte> got;
    for (const Sge& sge : in)
      got.insert(got.end(), static_cast<std::byte*>(sge.address),
                 static_cast<std::byte*>(sge.address) + sge.length);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0);
  }
  char text[] = "inline needs no region";
  Sge out{text, sizeof text, 0}, in = to.At(0, 64);
  ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, kOpInline).ok());
  text[0] = 'X';
  EXPECT_EQ(b->Next().bytes_transferred, sizeof text);
  EXPECT_STREQ(reinterpret_cast<char*>(to.data), "inline needs no region");
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
}

TEST_P(QpTest, PostingStatuses) {
  a = std::make_unique<End>();
  b = std::make_unique<End>();
  Memory m = Mem(*a, 4096);
  Sge one = m.At(0, 8);
  const auto send = [&](std::uint32_t flags) { return a->qp->Send(nullptr, {&one, 1}, flags).code(); };
  EXPECT_EQ(send(0), StatusCode::kConnectionInvalid);
  EXPECT_EQ(a->qp->Write(nullptr, {&one, 1}, 0, 1, 0).code(), StatusCode::kConnectionInvalid);
  EXPECT_EQ(a->qp->Read(nullptr, {&one, 1}, 0, 1, 0).code(), StatusCode::kConnectionInvalid);
  EXPECT_TRUE(a->qp->Receive(Tag(1), {&one, 1}).ok());
  Join(0);
  std::vector<Sge> many(kMaxSge + 1, one);
  EXPECT_EQ(a->qp->Send(nullptr, many, 0).code(), StatusCode::kDataOverrun);
  EXPECT_EQ(a->qp->Receive(nullptr, many).code(), StatusCode::kDataOverrun);
  std::vector<Sge> big(2, Sge{m.data, kMaxTransferLength, m.token()});
  EXPECT_EQ(a->qp->Send(nullptr, big, 0).code(), StatusCode::kBufferOverflow);
  EXPECT_EQ(send(kOpAllowRead), StatusCode::kInvalidParameter4);
  EXPECT_EQ(a->qp->Write(nullptr, {&one, 1}, 0, 1, kOpSendAndSolicit).code(), StatusCode::kInvalidParameter6);
  EXPECT_EQ(a->qp->Read(nullptr, {&one, 1}, 0, 1, kOpInline).code(), StatusCode::kInvalidParameter6);
  EXPECT_EQ(a->qp->Read(nullptr, {&one, 1}, 0, 1, 0).code(), StatusCode::kInvalidDeviceRequest);
  Sge wide = m.At(0, 65);
  EXPECT_EQ(a->qp->Send(nullptr, {&wide, 1}, kOpInline).code(), StatusCode::kBufferOverflow);
  for (int i = 0; i < 255; ++i) EXPECT_TRUE(a->qp->Receive(nullptr, {&one, 1}).ok());
  EXPECT_EQ(a->qp->Receive(nullptr, {&one, 1}).code(), StatusCode::kNoMoreEntries);
  // The first receive, posted before the connection, is used first.
  Memory n = Mem(*b, 64);
  Sge out = n.At(0, 8);
  ASSERT_TRUE(b->qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_EQ(a->Next().request_context, Tag(1));
}

TEST_P(QpTest, FullInitiatorQueueAndSilentSuccess) {
  Connect(16, {.rnr_timeout = std::chrono::seconds(20)});
  Memory m = Mem(*a, 4096), r = Mem(*b, 4096);
  Sge one = m.At(0, 8), in = r.At(0, 64);
  if (!foreign()) {
    for (int i = 0; i < 256; ++i) ASSERT_TRUE(a->qp->Send(Tag(1), {&one, 1}, kOpSilentSuccess).ok()) << i;
    EXPECT_EQ(a->qp->Send(nullptr, {&one, 1}, 0).code(), StatusCode::kNoMoreEntries);
    for (int i = 0; i < 256; ++i) {
      ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
      EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
    }
  }
  ASSERT_TRUE(a->Until([&] { return a->qp->Send(Tag(2), {&one, 1}, 0).ok(); }));
  ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  const Completion only = a->Next();
  EXPECT_EQ(only.request_context, Tag(2));
}

TEST_P(QpTest, WriteIsVisibleWhenTheSendBehindItCompletes) {
  Connect();
  Memory from = Mem(*a, 65536), to = Mem(*b, 65536);
  Sge in = to.At(65535, 1);
  for (unsigned round = 0; round < 200; ++round) {
    from.Fill(round);
    const std::size_t size = round * 37 % 20000 + 1;
    ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    Sge out = from.At(0, size);
    ASSERT_TRUE(a->qp->Write(nullptr, {&out, 1}, to.Address(), to.token(), kOpSilentSuccess).ok());
    ASSERT_TRUE(a->qp->Send(nullptr, {}, 0).ok());
    ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
    ASSERT_EQ(std::memcmp(from.data, to.data, size), 0) << round;
    ASSERT_EQ(a->Next().type, RequestType::kSend);
  }
}

TEST_P(QpTest, CompletionsKeepPostingOrder) {
  Connect();
  Memory mine = Mem(*a, 1 << 20), theirs = Mem(*b, 1 << 20);
  Sge in = theirs.At(0, 4096);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    Sge small = mine.At(0, 16), large = mine.At(4096, 300000);
    std::uintptr_t n = 0;
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(a->qp->Send(Tag(++n), {&small, 1}, 0).ok());
      ASSERT_TRUE(a->qp->Read(Tag(++n), {&large, 1}, theirs.Address(8192), theirs.token(), 0).ok());
      ASSERT_TRUE(
          a->qp->Write(Tag(++n), {&small, 1}, theirs.Address(8192), theirs.token(), kOpReadFence).ok());
    }
    for (std::uintptr_t i = 1; i <= n; ++i) {
      const Completion done = a->Next();
      ASSERT_EQ(done.status, StatusCode::kSuccess);
      ASSERT_EQ(done.request_context, Tag(i));
    }
    for (int i = 0; i < 8; ++i) ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
  }
}

TEST_P(QpTest, ReadLimitIsNeverExceeded) {
  Connect(2);
  Memory mine = Mem(*a, 1 << 20), theirs = Mem(*b, 1 << 20);
  theirs.Fill(3);
  for (std::size_t i = 0; i < 64; ++i) {
    Sge in = mine.At(i * 16000, 16000);
    ASSERT_TRUE(a->qp->Read(Tag(i), {&in, 1}, theirs.Address(i * 16000), theirs.token(), 0).ok());
  }
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(a->Next().request_context, Tag(i));
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 64 * 16000), 0);
  EXPECT_GE(a->counters.reads_in_flight_max.load(), 1u);
  EXPECT_LE(a->counters.reads_in_flight_max.load(), 2u);
}

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

// Each side may wait for its own requests before it posts the receive that the other side's Send needs.
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

TEST_P(QpTest, LocalMemoryThatIsNotRegistered) {
  Connect();
  std::byte stray[64];
  Sge one{stray, 64, 12345};
  ASSERT_TRUE(a->qp->Send(Tag(1), {&one, 1}, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kAccessViolation);
  EXPECT_TRUE(a->Until([&] { return b->closed == 1; }));
}

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

TEST_P(QpTest, SharedReceiveQueueFeedsSeveralQueuePairs) {
  b = std::make_unique<End>();
  auto srq = b->device->CreateSharedReceiveQueue(64, 4).value();
  Memory r = Mem(*b, 65536);
  std::vector<std::unique_ptr<End>> clients;
  std::vector<std::shared_ptr<QueuePair>> servers;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<End>());
    QpOptions options = b->Options();
    options.srq = srq;
    options.context = Tag(static_cast<std::uintptr_t>(100 + i));
    servers.push_back(b->device->CreateQueuePair(options).value());
    HandOffs both = MakeHandOffs(GetParam().link);
    ASSERT_TRUE(clients.back()->qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(servers.back()->Attach(std::move(both.passive)).ok());
  }
  Sge in = r.At(0, 1024);
  EXPECT_EQ(servers[0]->Receive(nullptr, {&in, 1}).code(), StatusCode::kInvalidDeviceRequest);
  for (int round = 0; round < 10; ++round) {
    // The Sends come first and are held until a receive appears.
    for (auto& client : clients) {
      Memory m = Mem(*client, 64);
      Sge out{reinterpret_cast<void*>(m.data), 8, 0};
      ASSERT_TRUE(client->qp->Send(nullptr, {&out, 1}, kOpInline).ok());
    }
    for (std::uintptr_t i = 0; i < 3; ++i) ASSERT_TRUE(srq->Receive(Tag(i), {&in, 1}).ok());
    std::vector<void*> contexts;
    for (int i = 0; i < 3; ++i) {
      const Completion done = b->Next();
      EXPECT_EQ(done.status, StatusCode::kSuccess);
      contexts.push_back(done.queue_pair_context);
    }
    std::sort(contexts.begin(), contexts.end());
    EXPECT_EQ(contexts, (std::vector<void*>{Tag(100), Tag(101), Tag(102)}));
    for (auto& client : clients) EXPECT_EQ(client->Next().status, StatusCode::kSuccess);
  }
  for (auto& server : servers) server->Drop();
}

}  // namespace
}  // namespace nd::provider::soft
