// SPDX-License-Identifier: Apache-2.0
// Requests with immediate data and atomic operations.
#include <functional>
#include <thread>

#include "base/os/socket.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

constexpr std::uint32_t kAtomics = kAllowRemoteAtomic | kAllowRemoteRead | kAllowRemoteWrite;
constexpr std::uint8_t kByWrite = kCompletionImmediate | kCompletionOfWrite;

std::uint64_t WordAt(const Memory& memory, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, memory.data + offset, sizeof word);
  return word;
}
void SetWord(Memory& memory, std::size_t offset, std::uint64_t word) {
  std::memcpy(memory.data + offset, &word, sizeof word);
}

TEST_P(QpTest, APeerThatDoesNotKnowThemIsNotSentThem) {
  if (!foreign()) GTEST_SKIP() << "this peer knows them";
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64, kAtomics);
  const Sge one = mine.At(0, 8);
  EXPECT_EQ(a->qp->SendWithImmediate(Tag(1), {&one, 1}, 7, 0).code(), StatusCode::kNotSupported);
  EXPECT_EQ(a->qp->WriteWithImmediate(Tag(1), {&one, 1}, theirs.Address(), theirs.token(), 7, 0).code(),
            StatusCode::kNotSupported);
  EXPECT_EQ(a->qp->FetchAdd(Tag(1), one, theirs.Address(), theirs.token(), 7, 0).code(),
            StatusCode::kNotSupported);
  EXPECT_EQ(a->qp->CompareSwap(Tag(1), one, theirs.Address(), theirs.token(), 7, 8, 0).code(),
            StatusCode::kNotSupported);
  EXPECT_EQ(WordAt(theirs, 0), 0u);
}

TEST_P(QpTest, ASendCarriesItsImmediateData) {
  if (foreign()) GTEST_SKIP() << "this peer does not know it";
  Connect();
  constexpr std::size_t kLarge = 300'000;
  Memory out = Mem(*a, kLarge), in = Mem(*b, kLarge);
  out.Fill(1);
  const Sge sink = in.At(0, kLarge);
  std::uint32_t value = 0x80000001;
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{5000}, kLarge}) {
    const Sge from = out.At(0, size);
    ASSERT_TRUE(b->qp->Receive(Tag(1), {&sink, 1}).ok());
    ASSERT_TRUE(b->qp->Receive(Tag(2), {&sink, 1}).ok());
    ASSERT_TRUE(a->qp->SendWithImmediate(Tag(3), {&from, 1}, ++value, 0).ok());
    ASSERT_TRUE(a->qp->Send(Tag(4), {&from, 1}, 0).ok());
    const Completion with = b->Next(), without = b->Next();
    EXPECT_EQ(with.status, StatusCode::kSuccess);
    EXPECT_EQ(with.flags, kCompletionImmediate);
    EXPECT_EQ(with.immediate, value);
    EXPECT_EQ(with.bytes_transferred, size);
    EXPECT_EQ(without.flags, 0);
    EXPECT_EQ(std::memcmp(in.data, out.data, size), 0);
    EXPECT_EQ(a->Next().type, RequestType::kSend);
    EXPECT_EQ(a->Next().request_context, Tag(4));
  }
}

TEST_P(QpTest, AWriteWithImmediateTakesAReceiveAndLeavesItsMemory) {
  if (foreign()) GTEST_SKIP() << "this peer does not know it";
  Connect();
  constexpr std::size_t kLarge = 300'000;
  Memory out = Mem(*a, kLarge), target = Mem(*b, kLarge), unused = Mem(*b, 64);
  unused.Fill(9);
  const std::vector<std::byte> before(unused.data, unused.data + 64);
  const Sge sink = unused.At(0, 64);
  unsigned seed = 1;
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{16384}, kLarge}) {
    out.Fill(++seed);
    const Sge from = out.At(0, size);
    // Held first: there is no receive.
    ASSERT_TRUE(
        a->qp->WriteWithImmediate(Tag(1), {&from, 1}, target.Address(), target.token(), seed, 0).ok());
    std::this_thread::sleep_for(ms(5));
    ASSERT_TRUE(b->qp->Receive(Tag(2), {&sink, 1}).ok());
    const Completion got = b->Next();
    EXPECT_EQ(got.status, StatusCode::kSuccess);
    EXPECT_EQ(got.request_context, Tag(2));
    EXPECT_EQ(got.flags, kByWrite);
    EXPECT_EQ(got.immediate, seed);
    EXPECT_EQ(got.bytes_transferred, size);
    EXPECT_EQ(std::memcmp(target.data, out.data, size), 0);
    EXPECT_EQ(std::memcmp(unused.data, before.data(), 64), 0);
    const Completion sent = a->Next();
    EXPECT_EQ(sent.status, StatusCode::kSuccess);
    EXPECT_EQ(sent.type, RequestType::kWrite);
    EXPECT_EQ(sent.request_context, Tag(1));
  }
  EXPECT_EQ(b->counters.rx_sends.load(), 0u);
}

TEST_P(QpTest, ManyWritesWithImmediateArriveInOrder) {
  if (foreign()) GTEST_SKIP() << "this peer does not know it";
  Connect();
  Memory out = Mem(*a, 64 * 1024), target = Mem(*b, 64 * 1024);
  constexpr std::uint32_t kCount = 3000;
  std::uint32_t posted = 0, done = 0, seen = 0;
  for (int i = 0; i < 128; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {}).ok());
  const Time give_up = In(kPatience);
  while (seen < kCount || done < kCount) {
    ASSERT_LT(Time(std::chrono::steady_clock::now()), give_up);
    const Sge from = out.At(0, posted % 7 * 3001);
    if (posted < kCount && posted - done < 200 &&
        a->qp->WriteWithImmediate(nullptr, {&from, 1}, target.Address(), target.token(), posted, 0).ok()) {
      ++posted;
    }
    Completion completion;
    while (a->cq->Poll({&completion, 1}) == 1) {
      ASSERT_EQ(completion.status, StatusCode::kSuccess);
      ++done;
    }
    while (b->cq->Poll({&completion, 1}) == 1) {
      ASSERT_EQ(completion.immediate, seen);
      ASSERT_EQ(completion.bytes_transferred, seen % 7 * 3001);
      ++seen;
      ASSERT_TRUE(b->qp->Receive(nullptr, {}).ok());
    }
  }
}

// The peer disconnects while requests with immediate data are on their way.
TEST_P(QpTest, ReportedCountIncludesWritesWithImmediate) {
  if (foreign()) GTEST_SKIP() << "this peer does not know it";
  for (int taken = 0; taken <= 3; ++taken) {
    Connect();
    Memory out = Mem(*a, 64), target = Mem(*b, 64);
    const Sge from = out.At(0, 8);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(b->qp->Receive(Tag(9), {}).ok());
    for (std::uintptr_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(a->qp->WriteWithImmediate(Tag(i), {&from, 1}, target.Address(), target.token(), 1, 0).ok());
    }
    for (int i = 0; i < taken; ++i) EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
    std::promise<Status> ended;
    b->qp->Disconnect(std::chrono::seconds(5), [&](const Status& status) { ended.set_value(status); });
    for (int i = 0; i < 4; ++i) {
      const Completion done = a->Next();
      EXPECT_EQ(done.status, i < taken ? StatusCode::kSuccess : StatusCode::kCanceled) << taken << " " << i;
    }
    EXPECT_TRUE(ended.get_future().get().ok());
  }
}

TEST_P(QpTest, AtomicOperationsReturnTheValueBefore) {
  if (foreign()) GTEST_SKIP() << "this peer does not know them";
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64, kAtomics);
  SetWord(theirs, 8, 0x0123456789ABCDEF);
  const auto next = [&] {
    const Completion done = a->Next();
    EXPECT_EQ(done.status, StatusCode::kSuccess);
    EXPECT_EQ(done.bytes_transferred, 8u);
    return done.type;
  };
  ASSERT_TRUE(a->qp->FetchAdd(Tag(1), mine.At(0, 8), theirs.Address(8), theirs.token(), 3, 0).ok());
  EXPECT_EQ(next(), RequestType::kFetchAdd);
  EXPECT_EQ(WordAt(mine, 0), 0x0123456789ABCDEFu);
  EXPECT_EQ(WordAt(theirs, 8), 0x0123456789ABCDF2u);
  // The values differ, so nothing changes.
  ASSERT_TRUE(a->qp->CompareSwap(Tag(1), mine.At(8, 8), theirs.Address(8), theirs.token(), 5, 6, 0).ok());
  EXPECT_EQ(next(), RequestType::kCompareSwap);
  EXPECT_EQ(WordAt(mine, 8), 0x0123456789ABCDF2u);
  EXPECT_EQ(WordAt(theirs, 8), 0x0123456789ABCDF2u);
  ASSERT_TRUE(
      a->qp->CompareSwap(Tag(1), mine.At(8, 8), theirs.Address(8), theirs.token(), 0x0123456789ABCDF2, 6, 0)
          .ok());
  EXPECT_EQ(next(), RequestType::kCompareSwap);
  EXPECT_EQ(WordAt(theirs, 8), 6u);
  ASSERT_TRUE(
      a->qp->FetchAdd(Tag(1), mine.At(0, 8), theirs.Address(8), theirs.token(), ~std::uint64_t{0}, 0).ok());
  next();
  EXPECT_EQ(WordAt(theirs, 8), 5u);
  EXPECT_EQ(WordAt(theirs, 0), 0u);
  EXPECT_EQ(WordAt(theirs, 16), 0u);
  // Wrong arguments.
  EXPECT_EQ(a->qp->FetchAdd(nullptr, mine.At(0, 8), theirs.Address(4), theirs.token(), 1, 0).code(),
            StatusCode::kInvalidParameter3);
  EXPECT_EQ(a->qp->FetchAdd(nullptr, mine.At(0, 4), theirs.Address(8), theirs.token(), 1, 0).code(),
            StatusCode::kInvalidParameter2);
  EXPECT_EQ(a->qp->FetchAdd(nullptr, mine.At(0, 8), theirs.Address(8), theirs.token(), 1, kOpInline).code(),
            StatusCode::kInvalidParameter6);
}

TEST_P(QpTest, AtomicOperationsNeedTheirRight) {
  if (foreign()) GTEST_SKIP() << "this peer does not know them";
  Connect();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);  // The region allows remote Reads and Writes only.
  ASSERT_TRUE(a->qp->FetchAdd(Tag(1), mine.At(0, 8), theirs.Address(8), theirs.token(), 3, 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kAccessViolation);
  EXPECT_EQ(WordAt(theirs, 8), 0u);
  EXPECT_TRUE(a->Until([&] { return a->closed == 1 && b->closed == 1; }));
}

TEST_P(QpTest, AtomicOperationsOvertakeNoReadAndCountAsReads) {
  if (foreign()) GTEST_SKIP() << "this peer does not know them";
  Connect(2);
  Memory mine = Mem(*a, 64 * 1024), theirs = Mem(*b, 64 * 1024, kAtomics);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Sge word = mine.At(i % 8 * 8, 8), block = mine.At(1024, 20'000);
    ASSERT_TRUE(a->qp->FetchAdd(Tag(1), word, theirs.Address(), theirs.token(), 1, 0).ok());
    ASSERT_TRUE(a->qp->Read(Tag(2), {&block, 1}, theirs.Address(), theirs.token(), 0).ok());
    EXPECT_EQ(a->Next().request_context, Tag(1));
    EXPECT_EQ(a->Next().request_context, Tag(2));
    EXPECT_EQ(WordAt(mine, i % 8 * 8), i);
    EXPECT_EQ(WordAt(mine, 1024), i + 1);
  }
  EXPECT_LE(a->counters.reads_in_flight_max.load(), 2u);
}

TEST_P(QpTest, EarlyRequestsWaitForTheConnection) {
  a = std::make_unique<End>();
  b = std::make_unique<End>();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);
  mine.Fill(1);
  const Sge one = mine.At(0, 8), two = mine.At(16, 8), sink = theirs.At(8, 8);
  EXPECT_EQ(a->qp->Send(Tag(1), {&one, 1}, 0).code(), StatusCode::kConnectionInvalid);
  ASSERT_TRUE(a->qp->AllowEarlyRequests().ok());
  ASSERT_TRUE(a->qp->Write(Tag(1), {&one, 1}, theirs.Address(), theirs.token(), 0).ok());
  ASSERT_TRUE(a->qp->Send(Tag(2), {&one, 1}, kOpInline).ok());
  ASSERT_TRUE(a->qp->Read(Tag(3), {&two, 1}, theirs.Address(), theirs.token(), 0).ok());
  ASSERT_TRUE(b->qp->Receive(Tag(4), {&sink, 1}).ok());
  std::this_thread::sleep_for(ms(5));
  Completion none;
  EXPECT_EQ(a->cq->Poll({&none, 1}), 0u);
  Join();
  EXPECT_EQ(b->Next().request_context, Tag(4));
  for (std::uintptr_t i = 1; i <= 3; ++i) {
    const Completion done = a->Next();
    EXPECT_EQ(done.status, StatusCode::kSuccess);
    EXPECT_EQ(done.request_context, Tag(i));
  }
  EXPECT_EQ(std::memcmp(theirs.data, mine.data, 8), 0);
  EXPECT_EQ(std::memcmp(theirs.data + 8, mine.data, 8), 0);
  EXPECT_EQ(std::memcmp(mine.data + 16, mine.data, 8), 0);
}

TEST_P(QpTest, EarlyRequestsThatTheConnectionDoesNotAllowFail) {
  a = std::make_unique<End>();
  b = std::make_unique<End>();
  Memory mine = Mem(*a, 64), theirs = Mem(*b, 64);
  const Sge one = mine.At(0, 8);
  ASSERT_TRUE(a->qp->AllowEarlyRequests().ok());
  if (foreign()) {
    ASSERT_TRUE(a->qp->SendWithImmediate(Tag(1), {&one, 1}, 1, 0).ok());
  } else {
    ASSERT_TRUE(a->qp->Read(Tag(1), {&one, 1}, theirs.Address(), theirs.token(), 0).ok());
  }
  ASSERT_TRUE(a->qp->Send(Tag(2), {&one, 1}, 0).ok());
  Join(0);
  const Completion first = a->Next();
  EXPECT_EQ(first.request_context, Tag(1));
  EXPECT_EQ(first.status, foreign() ? StatusCode::kNotSupported : StatusCode::kInvalidDeviceRequest);
  EXPECT_EQ(a->Next().status, StatusCode::kCanceled);
}

TEST_P(QpTest, EarlyRequestsAreFlushed) {
  a = std::make_unique<End>();
  Memory mine = Mem(*a, 64);
  const Sge one = mine.At(0, 8);
  ASSERT_TRUE(a->qp->AllowEarlyRequests().ok());
  ASSERT_TRUE(a->qp->Send(Tag(1), {&one, 1}, 0).ok());
  ASSERT_TRUE(a->qp->Flush().ok());
  EXPECT_EQ(a->Next().status, StatusCode::kCanceled);
}

// The peer is this test, which writes one record into its ring.
StatusCode AnswerTo(bool agreed, const std::function<void(Slot&, const Memory&)>& fill, bool receive = true) {
  End end({.rnr_timeout = ms(20)});
  HandOffs both = MakeHandOffs(Link::kSharedRingOnly);
  if (!agreed) both.passive.record.flags &= ~std::uint32_t{kHandOffExtensions};
  Mapping mapping = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
  auto& segment = *reinterpret_cast<Segment*>(mapping.data());
  Memory word(end, 64, false, kAtomics);
  EXPECT_TRUE(end.qp->Attach(std::move(both.passive)).ok());
  if (receive) {
    EXPECT_TRUE(end.qp->Receive(Tag(1), {}).ok());
  }
  Slot& slot = segment.ring[0].slots[0];
  slot.token = word.token();
  slot.address = word.Address(8);
  fill(slot, word);
  slot.stamp.store(1, std::memory_order_release);
  const char bell = 1;
  EXPECT_EQ(os::Send(both.active.fds[1].get(), &bell, 1), 1);
  // Answered, or the end of the connection.
  const SideControl& control = segment.side[1];
  EXPECT_TRUE(end.Until([&] { return end.closed == 1 || control.consumed.load() == 1; }));
  const std::uint32_t code = control.end_code.load();
  if (code == 1) return StatusCode::kAccessViolation;
  if (code == 2) return StatusCode::kIoTimeout;
  if (code == 4) return StatusCode::kRemoteError;
  EXPECT_EQ(code, 0u);
  return StatusCode::kSuccess;
}

TEST(HostileRing, RecordsOfTheExtensionsAreJudged) {
  using enum StatusCode;
  const auto kind = [](RecordKind which) {
    return [which](Slot& slot, const Memory&) { slot.kind = which; };
  };
  for (const RecordKind which : {RecordKind::kImmediate, RecordKind::kFetchAdd, RecordKind::kCompareSwap}) {
    EXPECT_EQ(AnswerTo(true, kind(which)), kSuccess);
    EXPECT_EQ(AnswerTo(false, kind(which)), kRemoteError);
  }
  const auto send = [](Slot& slot, const Memory&) {
    slot.kind = RecordKind::kSend;
    slot.flags = kLastPiece | kInlineBytes | kHasImmediate;
  };
  EXPECT_EQ(AnswerTo(true, send), kSuccess);
  EXPECT_EQ(AnswerTo(false, send), kRemoteError);
  EXPECT_EQ(AnswerTo(true,
                     [&](Slot& slot, const Memory& word) {
                       send(slot, word);
                       slot.flags |= kInvalidates;
                     }),
            kAccessViolation);
  EXPECT_EQ(AnswerTo(true,
                     [](Slot& slot, const Memory&) {
                       slot.kind = RecordKind::kImmediate;
                       slot.length = UINT32_MAX;
                     }),
            kRemoteError);
  EXPECT_EQ(AnswerTo(true, kind(RecordKind::kImmediate), false), kIoTimeout);
  EXPECT_EQ(AnswerTo(true,
                     [](Slot& slot, const Memory&) {
                       slot.kind = RecordKind::kFetchAdd;
                       slot.address += 4;
                     }),
            kAccessViolation);
  EXPECT_EQ(AnswerTo(true,
                     [](Slot& slot, const Memory& word) {
                       slot.kind = RecordKind::kFetchAdd;
                       slot.address = word.Address() + 64;
                     }),
            kAccessViolation);
  EXPECT_EQ(AnswerTo(true,
                     [](Slot& slot, const Memory&) {
                       slot.kind = RecordKind::kCompareSwap;
                       slot.token ^= 1;
                     }),
            kAccessViolation);
}

// Peers by shared memory, by its ring and by TCP change one word at the same time.
TEST(QpExtensions, ManyPeersCountTogether) {
  constexpr int kPeers = 6;
  constexpr std::uint64_t kAdds = 3000;
  End target;
  Memory word(target, 64, true, kAtomics);
  std::vector<std::shared_ptr<QueuePair>> ends;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<End>> peers;
  constexpr Link kLinks[] = {Link::kShared, Link::kSharedRingOnly, Link::kIwarp};
  for (int i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<End>());
    ends.push_back(target.device->CreateQueuePair(target.Options()).value());
    HandOffs both = MakeHandOffs(kLinks[i % 3]);
    ASSERT_TRUE(peers.back()->qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(ends.back()->Attach(std::move(both.passive)).ok());
  }
  std::atomic<std::uint64_t> swapped{0};
  for (auto& peer : peers) {
    threads.emplace_back([&] {
      Memory mine(*peer, 64, true);
      std::uint64_t guess = 0;
      for (std::uint64_t done = 0; done < kAdds; ++done) {
        ASSERT_TRUE(peer->qp->FetchAdd(nullptr, mine.At(0, 8), word.Address(), word.token(), 1, 0).ok());
        ASSERT_EQ(peer->Next().status, StatusCode::kSuccess);
        if (done % 8 != 0) continue;
        ASSERT_TRUE(
            peer->qp->CompareSwap(nullptr, mine.At(8, 8), word.Address(8), word.token(), guess, guess + 1, 0)
                .ok());
        ASSERT_EQ(peer->Next().status, StatusCode::kSuccess);
        if (WordAt(mine, 8) == guess) ++swapped;
        guess = WordAt(mine, 8) == guess ? guess + 1 : WordAt(mine, 8);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(WordAt(word, 0), kPeers * kAdds);
  EXPECT_EQ(WordAt(word, 8), swapped.load());
  for (auto& end : ends) end->Drop();
}

}  // namespace
}  // namespace nd::provider::soft
