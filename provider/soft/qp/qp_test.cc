// SPDX-License-Identifier: Apache-2.0
// The operations of the data path, over every kind of transport.
#include <thread>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

INSTANTIATE_TEST_SUITE_P(Links, QpTest,
                         ::testing::Values(Case{Link::kShared, true}, Case{Link::kShared, false},
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
