// SPDX-License-Identifier: Apache-2.0
// The common cases of the message path do what the general ones do.
#include <array>
#include <thread>

#include "provider/soft/qp/testing.h"
#include "provider/soft/qp/token_table.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {
namespace {

TEST(CopySmallTest, CopiesEachSizeAndNothingBeside) {
  std::array<std::byte, 32> from;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  for (std::size_t size = 0; size <= from.size(); ++size) {
    std::array<std::byte, 48> to{};
    CopySmall(to.data() + 8, from.data(), size);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const bool inside = i >= 8 && i < 8 + size;
      EXPECT_EQ(to[i], inside ? from[i - 8] : std::byte{}) << size << " bytes, byte " << i;
    }
  }
}

// The check without a copy against the copy of the entry.
TEST(AllowsLocalTest, AgreesWithTheEntryInEachRespect) {
  auto table = TokenTable::Create().value();
  RegionView view;
  view.base = 0x10000;
  view.length = 0x100;
  view.shift = 0x4000;
  view.access = kAllowLocalWrite | kAllowRemoteRead;
  view.domain = 7;
  const std::uint32_t stag = table->Insert(view).value();
  const std::uint64_t first = view.base + view.shift;
  const auto allows = [&](std::uint32_t token, std::uint64_t address, std::uint64_t size, TwoDomains domains,
                          std::uint32_t access) {
    return AllowsLocal(table->entries(), token, address, size, domains, access);
  };
  EXPECT_TRUE(allows(stag, first, 0x100, {7, 1}, 0));
  EXPECT_TRUE(allows(stag, first, 0x100, {1, 7}, kAllowLocalWrite)) << "the other domain";
  EXPECT_TRUE(allows(stag, first + 0xFF, 1, {7, 7}, kAllowLocalWrite | kRdmaReadSink)) << "one of two rights";
  EXPECT_FALSE(allows(stag, first, 0x100, {1, 2}, 0)) << "of another domain";
  EXPECT_FALSE(allows(stag, first, 0x100, {7, 7}, kRdmaReadSink)) << "without the right";
  EXPECT_FALSE(allows(stag, first - 1, 1, {7, 7}, 0)) << "before it";
  EXPECT_FALSE(allows(stag, first + 0xFF, 2, {7, 7}, 0)) << "beyond it";
  EXPECT_FALSE(allows(stag, first + 0x101, 1, {7, 7}, 0)) << "behind it";
  EXPECT_FALSE(allows(stag, first + 1, ~std::uint64_t{0}, {7, 7}, 0)) << "a sum that wraps";
  EXPECT_FALSE(allows(stag, view.base, 1, {7, 7}, 0)) << "the address that peers use";
  EXPECT_FALSE(allows(stag ^ 1, first, 1, {7, 7}, 0)) << "another token of the slot";
  EXPECT_FALSE(allows(0, first, 1, {7, 7}, 0)) << "no token";
  view.window = true;
  EXPECT_FALSE(allows(table->Insert(view).value(), first, 1, {7, 7}, 0)) << "a window";
  table->Remove(stag);
  EXPECT_FALSE(allows(stag, first, 1, {7, 7}, 0)) << "deregistered";
}

TEST(LocalGrantTest, CoversTheRegionUntilTheTableChanges) {
  auto table = TokenTable::Create().value();
  RegionView view;
  view.base = 0x10000;
  view.length = 0x100;
  view.shift = 0x4000;
  view.access = kAllowLocalWrite;
  const std::uint32_t stag = table->Insert(view).value();
  const std::uint64_t first = view.base + view.shift, changes = table->changes().load();
  LocalGrant grant;
  EXPECT_FALSE(grant.Covers(stag, first, 1, 0, changes)) << "nothing is granted at first";
  grant.Learn(table->entries(), stag, changes);
  EXPECT_TRUE(grant.Covers(stag, first, 0x100, 0, changes));
  EXPECT_TRUE(grant.Covers(stag, first + 0xFF, 1, kAllowLocalWrite | kRdmaReadSink, changes));
  EXPECT_FALSE(grant.Covers(stag, first, 0x100, kRdmaReadSink, changes)) << "without the right";
  EXPECT_FALSE(grant.Covers(stag, first - 1, 1, 0, changes)) << "before it";
  EXPECT_FALSE(grant.Covers(stag, first + 0xFF, 2, 0, changes)) << "beyond it";
  EXPECT_FALSE(grant.Covers(stag, first + 1, ~std::uint64_t{0}, 0, changes)) << "a sum that wraps";
  EXPECT_FALSE(grant.Covers(stag ^ 1, first, 1, 0, changes)) << "another token";
  table->Withdraw(stag);
  const std::uint64_t withdrawn = table->changes().load();
  EXPECT_FALSE(grant.Covers(stag, first, 1, 0, withdrawn)) << "withdrawn";
  table->Publish(stag, view);
  EXPECT_NE(table->changes().load(), withdrawn) << "published under the same token";
  grant.Forget();
  EXPECT_FALSE(grant.Covers(stag, first, 1, 0, changes)) << "forgotten";
  EXPECT_FALSE(grant.Covers(0, first, 1, 0, changes)) << "no token";
}

// Two connections on one completion queue. The first one always has something.
TEST(PollTest, APollEndsWithTheFirstQueuePairThatHasSomethingAndTheNextOneGoesOnBehindIt) {
  HeldUpThread held_up;
  End a, b, c;
  const QpOptions options = [&] {
    QpOptions of_a = a.Options();
    of_a.context = &c;
    of_a.counters = nullptr;
    return of_a;
  }();
  const std::shared_ptr<QueuePair> second = a.device->CreateQueuePair(options).value();
  HandOffs to_b = MakeHandOffs(Link::kShared), to_c = MakeHandOffs(Link::kShared);
  ASSERT_TRUE(a.qp->Attach(std::move(to_b.active)).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(to_b.passive)).ok());
  ASSERT_TRUE(second->Attach(std::move(to_c.active)).ok());
  ASSERT_TRUE(c.qp->Attach(std::move(to_c.passive)).ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(a.qp->Receive(Tag(1), {}).ok());
    ASSERT_TRUE(second->Receive(Tag(2), {}).ok());
  }
  const auto send = [](End& end) { ASSERT_TRUE(end.qp->Send(nullptr, {}, 0).ok()); };
  std::array<Completion, 4> got;
  send(b);
  send(c);
  ASSERT_EQ(a.cq->Poll(got), 1u);
  const void* const former = got[0].request_context;
  for (int i = 0; i < 3; ++i) {
    // The one that was served has something again.
    send(former == Tag(1) ? b : c);
    ASSERT_EQ(a.cq->Poll(got), 1u);
    EXPECT_NE(got[0].request_context, former) << "the other one waited longer";
    send(former == Tag(1) ? c : b);
    ASSERT_EQ(a.cq->Poll(got), 1u);
    EXPECT_EQ(got[0].request_context, former);
  }
  second->Drop();
}

TEST(PollTest, WritesThatCompleteInTheirPostDoNotKeepAMessageAway) {
  End a({}, false), b({}, false);
  HandOffs both = MakeHandOffs(Link::kShared);
  ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
  Memory of_a(a, 4096, true), of_b(b, 4096, true);
  const Sge here = of_a.At(0, 8), into = of_a.At(64, 8), there = of_b.At(0, 8);
  const auto write = [&] { return a.qp->Write(nullptr, {&here, 1}, of_b.Address(), of_b.token(), 0).ok(); };
  Completion done;
  for (int i = 0; i < 2; ++i) {  // The first one asks for the memory.
    Acquaint(a, b);
    ASSERT_TRUE(write());
    ASSERT_TRUE(a.Until([&] { return b.cq->Poll({&done, 1}) == 0 && a.cq->Poll({&done, 1}) == 1; }));
  }
  ASSERT_TRUE(a.qp->Receive(Tag(7), {&into, 1}).ok());
  ASSERT_TRUE(b.qp->Send(nullptr, {&there, 1}, 0).ok());
  int written = 0;
  for (done = {}; done.request_context != Tag(7) && written < 100; ++written) {
    ASSERT_TRUE(write());
    ASSERT_EQ(a.cq->Poll({&done, 1}), 1u) << "the Write was not complete";
  }
  EXPECT_LT(written, 100) << "the message did not come";
}

class MessagePathTest : public QpTest {};

// A Send behind each kind of request arrives behind it, whichever way either one takes.
TEST_P(MessagePathTest, ASmallSendStaysBehindWhatIsAheadOfIt) {
  Connect();
  Memory from = Mem(*a, 1 << 20), to = Mem(*b, 1 << 20);
  from.Fill(1);
  for (int i = 0; i < 32; ++i) {
    const Sge big = to.At(0, 512 * 1024), small = to.At(512 * 1024, 8);
    ASSERT_TRUE(b->qp->Receive(Tag(1), {&big, 1}).ok());
    ASSERT_TRUE(b->qp->Receive(Tag(2), {&small, 1}).ok());
    // The largest ones do not fit into the ring, so that a part of them waits.
    const std::uint32_t size = 1 + static_cast<std::uint32_t>(i) * 16'000;
    const Sge first = from.At(0, size), second = from.At(1, 8), written = from.At(2, 16);
    ASSERT_TRUE(a->qp->Write(Tag(3), {&written, 1}, to.Address(600 * 1024), to.token(), 0).ok());
    ASSERT_TRUE(a->qp->Send(Tag(4), {&first, 1}, 0).ok());
    ASSERT_TRUE(a->qp->Send(Tag(5), {&second, 1}, 0).ok());
    for (const std::uintptr_t tag : {1, 2}) {
      const Completion done = b->Next();
      EXPECT_EQ(done.request_context, Tag(tag));
      EXPECT_EQ(done.bytes_transferred, tag == 1 ? size : 8u);
    }
    EXPECT_EQ(std::memcmp(to.data, from.data, size), 0);
    EXPECT_EQ(std::memcmp(to.data + 512 * 1024, from.data + 1, 8), 0);
    EXPECT_EQ(std::memcmp(to.data + 600 * 1024, from.data + 2, 16), 0);
    for (const std::uintptr_t tag : {3, 4, 5}) EXPECT_EQ(a->Next().request_context, Tag(tag));
  }
}

// Each way that the bytes of a Send take, and the places where the data area of the ring begins again.
TEST_P(MessagePathTest, SendsOfEachSizeArriveWhole) {
  Connect();
  Memory from = Mem(*a, 64 * 1024), to = Mem(*b, 64 * 1024);
  from.Fill(3);
  for (const std::size_t size : {0, 1, 8, 31, 32, 33, 64, 255, 256, 257, 4096, 16384, 16385, 60000}) {
    for (std::size_t i = 0; i < 70; ++i) {
      const Sge in = to.At(0, 64 * 1024), out = from.At(i, size);
      std::memset(to.data, 0, size + 1);
      ASSERT_TRUE(b->qp->Receive(Tag(i), {&in, 1}).ok());
      ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
      ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
      const Completion done = b->Next();
      ASSERT_EQ(done.status, StatusCode::kSuccess);
      ASSERT_EQ(done.bytes_transferred, size);
      ASSERT_EQ(std::memcmp(to.data, from.data + i, size), 0) << size << " bytes, message " << i;
      ASSERT_EQ(to.data[size], std::byte{}) << size << " bytes, message " << i;
    }
  }
}

// More completions than a poll asks for.
TEST_P(MessagePathTest, APollThatHasRoomForFewKeepsTheOthersInOrder) {
  Connect();
  Memory from = Mem(*a, 64), to = Mem(*b, 64);
  const Sge in = to.At(0, 64), out = from.At(0, 8);
  for (std::uintptr_t round = 0; round < 10; ++round) {
    for (std::uintptr_t i = 1; i <= 10; ++i) ASSERT_TRUE(b->qp->Receive(Tag(i), {&in, 1}).ok());
    for (std::uintptr_t i = 1; i <= 10; ++i) ASSERT_TRUE(a->qp->Send(Tag(i), {&out, 1}, 0).ok());
    for (End* end : {b.get(), a.get()}) {
      std::uintptr_t next = 1;
      std::array<Completion, 3> got;
      ASSERT_TRUE(end->Until([&] {
        const std::size_t count = end->cq->Poll(got);
        EXPECT_LE(count, got.size());
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(got[i].request_context, Tag(next++));
        return next > 10;
      }));
    }
  }
}

// Memory that was used ends. The next request that names it fails, although its region was checked before.
TEST_P(MessagePathTest, ASendFromMemoryThatWasUsedAndIsDeregisteredFails) {
  Connect();
  Memory from = Mem(*a, 64), to = Mem(*b, 64);
  const Sge in = to.At(0, 64), out = from.At(0, 8);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
  ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(from.region->Deregister().ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kAccessViolation);
}

TEST_P(MessagePathTest, AReceiveIntoMemoryThatWasUsedAndIsDeregisteredFails) {
  Connect();
  Memory from = Mem(*a, 64), to = Mem(*b, 64);
  const Sge in = to.At(0, 64), out = from.At(0, 8);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(to.region->Deregister().ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_EQ(b->Next().status, StatusCode::kAccessViolation);
}

TEST_P(MessagePathTest, MemoryThatWasUsedIsNotOfTheNextDomain) {
  Connect();
  Memory from = Mem(*a, 64), to = Mem(*b, 64);
  const Sge in = to.At(0, 64), out = from.At(0, 8);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(a->qp->SetProtection({.domain = 7, .receive_domain = 7}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kAccessViolation);
}

// Requests complete in the post of one thread and in the polls of another.
TEST_P(MessagePathTest, CompletionsKeepTheirOrderWhicheverThreadMakesThem) {
  constexpr std::uintptr_t kRequests = 4000;
  Connect();
  Memory from = Mem(*a, 64), to = Mem(*b, 64);
  const Sge in = to.At(0, 64), out = from.At(0, 8);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  std::atomic<std::uintptr_t> completed{0};
  std::thread poster([&] {
    for (std::uintptr_t i = 0; i < kRequests; ++i) {
      while (i - completed.load() >= 100) std::this_thread::yield();
      const Status posted = i % 3 == 0 ? a->qp->Send(Tag(i), {&out, 1}, 0)
                                       : a->qp->Write(Tag(i), {&out, 1}, to.Address(), to.token(), 0);
      ASSERT_TRUE(posted.ok());
    }
  });
  std::thread receiver([&] {
    for (std::uintptr_t i = 0; i < kRequests; i += 3) {
      ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
      ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    }
  });
  std::array<Completion, 4> got;
  for (std::uintptr_t next = 0; next < kRequests;) {
    const std::size_t count = a->cq->Poll(got);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(got[i].request_context, Tag(next++));
    completed.store(next);
  }
  poster.join();
  receiver.join();
}

// A thread that posts, one that polls, and the progress thread share the locks.
TEST_P(MessagePathTest, ThreadsThatTakeTurnsLoseNothing) {
  constexpr int kMessages = 3000;
  Connect();
  Memory from = Mem(*a, 64), to = Mem(*b, 64);
  const Sge out = from.At(0, 8), in = to.At(0, 8);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  std::atomic<int> sent{0}, completed{0};
  std::thread poster([&] {
    for (int i = 0; i < kMessages; ++i) {
      while (i - completed.load() >= 100) std::this_thread::yield();
      // A thread that stays away for a while gives the polling thread time to own the locks.
      if (i % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
      sent.fetch_add(1);
    }
  });
  std::thread poller([&] {
    Completion got;
    while (completed.load() < kMessages) {
      if (a->cq->Poll({&got, 1}) == 0) continue;
      EXPECT_EQ(got.status, StatusCode::kSuccess);
      completed.fetch_add(1);
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
    ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  }
  poster.join();
  poller.join();
  EXPECT_EQ(completed.load(), kMessages);
}

INSTANTIATE_TEST_SUITE_P(Links, MessagePathTest,
                         ::testing::Values(Case{Link::kShared, true}, Case{Link::kShared, false},
                                           Case{Link::kSharedRingOnly, false}, Case{Link::kIwarp, false}),
                         [](const auto& of) {
                           return std::string(NameOf(of.param.link)) +
                                  (of.param.shared_memory ? "_buffer" : "_heap");
                         });

}  // namespace
}  // namespace nd::provider::soft
