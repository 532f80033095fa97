// SPDX-License-Identifier: Apache-2.0
// The mover of data: an application that polls, one that waits, or the progress thread for any other.
#include <optional>
#include <thread>

#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

TEST_P(QpTest, OneSidedWhileTheTargetSleeps) {
  Connect();
  Memory mine = Mem(*a, 256 << 10), theirs = Mem(*b, 256 << 10);
  mine.Fill(5);
  // From here on no call is made on b; only its progress thread runs.
  Sge out = mine.At(0, 200000), in = mine.At(0, 200000);
  ASSERT_TRUE(a->qp->Write(nullptr, {&out, 1}, theirs.Address(), theirs.token(), 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(a->qp->Read(nullptr, {&in, 1}, theirs.Address(), theirs.token(), 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 200000), 0);
}

TEST_P(QpTest, WithoutProgressThreadWaitDrives) {
  Connect(16, {}, false);
  Memory mine = Mem(*a, 1 << 20), theirs = Mem(*b, 1 << 20);
  mine.Fill(1);
  Sge out = mine.At(0, 1 << 20), in = theirs.At(0, 1 << 20);
  ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  std::thread other([&] { EXPECT_EQ(a->Next().status, StatusCode::kSuccess); });
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  if (!foreign()) {
    // The answer for a needs one more poll of b.
    Completion none;
    for (int i = 0; i < 100; ++i) b->cq->Poll({&none, 1});
  }
  other.join();
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 1 << 20), 0);
}

// The progress thread never returns by itself to a queue pair that it left to the polls.
class PutOffTest : public QpTest {
 protected:
  void SetUp() override {
    Connect(16, {.rnr_timeout = std::chrono::hours(2), .put_off = std::chrono::hours(1)});
    from.emplace(*a, 64, GetParam().shared_memory);
    to.emplace(*b, 64, GetParam().shared_memory);
  }
  void Send() {
    Sge out = from->At(0, 8), in = to->At(0, 8);
    ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  }
  // Sends messages that b polls for, until the progress thread must have noticed.
  void Poll() {
    for (const Time end = In(std::chrono::milliseconds(20)); std::chrono::steady_clock::now() < end;) {
      Send();
      ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) == 1; }));
      ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) + a->cq->Poll({&got, 1}) == 1; }));
    }
  }
  std::optional<Memory> from, to;
  Completion got;
};
INSTANTIATE_TEST_SUITE_P(Links, PutOffTest,
                         ::testing::Values(Case{Link::kShared, true}, Case{Link::kIwarp, false},
                                           Case{Link::kIwarpForeign, false}),
                         [](const auto& c) { return NameOf(c.param.link); });

TEST_P(PutOffTest, NotifyEndsThePollingThatTheThreadWaitedFor) {
  for (int i = 0; i < 10; ++i) {
    SCOPED_TRACE(i);
    Poll();
    ASSERT_EQ(b->cq->Poll({&got, 1}), 0u);
    ASSERT_TRUE(b->cq->Notify(NotifyType::kAny).ok());
    if (i % 2 == 0) {
      ASSERT_EQ(b->cq->Poll({&got, 1}), 0u);  // As an application does to avoid a missed completion.
    }
    Send();
    ASSERT_TRUE(Readable(b->cq->handle(), std::chrono::seconds(5))) << "nobody fetched the message";
    b->cq->ConsumeNotification();
    ASSERT_EQ(b->cq->Poll({&got, 1}), 1u);
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  }
}

TEST_P(PutOffTest, QueuePairIsLeftToPollsThatContinueAfterNotify) {
  ASSERT_TRUE(b->cq->Notify(NotifyType::kErrors).ok());
  Poll();
  const std::uint64_t before = b->counters.wakeups;
  Poll();
  Poll();
  // The thread may come between two polls occasionally, but not for each message.
  EXPECT_LT(b->counters.wakeups, before + 10);
}

TEST_P(QpTest, PollingAloneNoticesTheEnd) {
  Connect(16, {}, false);
  a->qp.reset();
  Completion none;
  ASSERT_TRUE(b->Until([&] {
    b->cq->Poll({&none, 1});
    return b->closed == 1;
  }));
}

TEST_P(QpTest, BothWaysAtOnceFromFourThreads) {
  Connect(16, {.rnr_timeout = std::chrono::seconds(30)});
  constexpr int kMessages = 3000;
  const auto run = [&](End& self) {
    Memory m(self, 65536, GetParam().shared_memory);
    int posted = 0, sent = 0, received = 0, flying = 0;
    Sge in = m.At(0, 16384);
    for (; posted < 64; ++posted) ASSERT_TRUE(self.qp->Receive(nullptr, {&in, 1}).ok());
    std::size_t seed = 1;
    while (sent < kMessages || received < kMessages || flying > 0) {
      while (sent < kMessages && flying < 32) {
        seed = seed * 1103515245 + 12345;
        Sge out = m.At(32768, seed % 9 == 0 ? 16384 : seed / 7 % 300);
        ASSERT_TRUE(self.qp->Send(nullptr, {&out, 1}, 0).ok());
        ++sent;
        ++flying;
      }
      const Completion done = self.Next();
      ASSERT_EQ(done.status, StatusCode::kSuccess);
      if (done.type == RequestType::kSend) {
        --flying;
        continue;
      }
      ++received;
      if (posted < kMessages) {
        ASSERT_TRUE(self.qp->Receive(nullptr, {&in, 1}).ok());
        ++posted;
      }
    }
  };
  std::thread left([&] { run(*a); }), right([&] { run(*b); });
  left.join();
  right.join();
}

TEST_P(QpTest, DeregisterDuringTraffic) {
  for (int round = 0; round < 10; ++round) {
    Connect();
    Memory mine = Mem(*a, 1 << 20);
    auto theirs = std::make_unique<Memory>(*b, 1 << 20, GetParam().shared_memory);
    const std::uint64_t address = theirs->Address();
    const std::uint32_t token = theirs->token();
    std::atomic<bool> wrote{false};
    std::thread writer([&] {
      for (bool failed = false; !failed; wrote = true) {
        Sge out = mine.At(0, 1 << 20);
        if (!a->qp->Write(nullptr, {&out, 1}, address, token, 0).ok()) break;
        failed = a->Next().status != StatusCode::kSuccess;
      }
      wrote = true;
    });
    while (!wrote && round != 0) std::this_thread::yield();
    ASSERT_TRUE(theirs->region->Deregister().ok());
    theirs.reset();  // Unmapped or freed, so that a late access crashes or is reported by a sanitizer.
    writer.join();
  }
}

// Many connections between the queues of a and b, while the progress thread is blocked, so that only calls of
// a and b move data.
class ManyTest : public QpTest {
 protected:
  static constexpr std::size_t kMany = 40, kDrivenAnyway = 16;
  struct Pair {
    std::shared_ptr<QueuePair> of_a, of_b;
    std::shared_ptr<std::atomic<bool>> b_saw_the_end = std::make_shared<std::atomic<bool>>(false);
  };

  void SetUp() override {
    held_up.emplace();
    // A receiver without a processor for a second would end a connection.
    a = std::make_unique<End>(Tuning{.rnr_timeout = kPatience});
    b = std::make_unique<End>(Tuning{.rnr_timeout = kPatience});
    // A poll of b looks at 16 queue pairs, whatever the transport.
    Set().SetBudget(16 *
                    (GetParam().link == Link::kShared ? PollSet::kCostOfMemory : PollSet::kCostOfSocket));
    from.emplace(*a, 64, GetParam().shared_memory);
    to.emplace(*b, 64 * kMany, GetParam().shared_memory);
    for (std::size_t i = 0; i < kMany; ++i) {
      Pair pair;
      QpOptions options = a->Options();
      options.receive_depth = options.initiator_depth = 4;
      pair.of_a = a->device->CreateQueuePair(options).value();
      options.receive_cq = options.initiator_cq = b->cq;
      options.context = Tag(i);
      options.counters = nullptr;
      options.on_peer_closed = [saw = pair.b_saw_the_end](DisconnectReason, const Status&) { *saw = true; };
      pair.of_b = b->device->CreateQueuePair(options).value();
      HandOffs both = MakeHandOffs(GetParam().link);
      ASSERT_TRUE(pair.of_a->Attach(std::move(both.active)).ok());
      ASSERT_TRUE(pair.of_b->Attach(std::move(both.passive)).ok());
      pairs.push_back(std::move(pair));
    }
    ASSERT_EQ(Hot(), kMany);
  }
  void TearDown() override {
    pairs.clear();
    held_up.reset();
  }
  PollSet& Set() { return dynamic_cast<SoftCompletionQueue&>(*b->cq).poll_set(); }
  std::size_t Hot() { return Set().hot(); }
  void PollUntilMostAreCold() {
    Completion none;
    ASSERT_TRUE(b->Until([&] {
      EXPECT_EQ(b->cq->Poll({&none, 1}), 0u);
      return Hot() <= kDrivenAnyway;
    }));
  }
  void Receive(std::size_t i) {
    const Sge in = to->At(64 * i, 8);
    EXPECT_TRUE(pairs[i].of_b->Receive(nullptr, {&in, 1}).ok());
  }
  void Send(std::size_t i) {
    Receive(i);
    const Sge out = from->At(0, 8);
    ASSERT_TRUE(pairs[i].of_a->Send(nullptr, {&out, 1}, 0).ok());
  }
  std::optional<Memory> from, to;
  std::vector<Pair> pairs;
  std::optional<HeldUpThread> held_up;
};
INSTANTIATE_TEST_SUITE_P(Links, ManyTest,
                         ::testing::Values(Case{Link::kShared, true}, Case{Link::kIwarp, false},
                                           Case{Link::kIwarpForeign, false}),
                         [](const auto& c) { return NameOf(c.param.link); });

TEST_P(ManyTest, PollingFindsDataOfAColdQueuePair) {
  PollUntilMostAreCold();
  Completion got;
  for (std::size_t i = 0; i < 3 * kMany; ++i) {
    const std::size_t which = i * 7 % kMany;
    Send(which);
    ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) == 1; })) << which;
    EXPECT_EQ(got.queue_pair_context, Tag(which));
    EXPECT_EQ(got.status, StatusCode::kSuccess);
    ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) + a->cq->Poll({&got, 1}) == 1; })) << which;
  }
  EXPECT_GT(Hot(), kDrivenAnyway) << "what is alive is driven again";
  PollUntilMostAreCold();
}

TEST_P(ManyTest, AnyConnectionWakesAWaiter) {
  Completion got;
  bool slept = false;  // Then nearly all queue pairs are cold.
  for (std::size_t i = 0; i < kMany; ++i) {
    std::thread sleeper([&] { got = b->Next(); });
    // Wait polls for 50 us before it sleeps.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Send(i);
    sleeper.join();
    ASSERT_EQ(got.status, StatusCode::kSuccess) << i;
    EXPECT_EQ(got.queue_pair_context, Tag(i));
    slept = slept || Hot() <= kDrivenAnyway + 1;
    ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) + a->cq->Poll({&got, 1}) == 1; })) << i;
  }
  EXPECT_TRUE(slept);
}

TEST_P(ManyTest, SeveralThreadsPollAndWaitWithoutLossOrDuplicates) {
  held_up.reset();  // The progress thread too.
  constexpr int kMessages = 20000;
  const Sge out = from->At(0, 8);
  for (std::size_t i = 0; i < 4 * kMany; ++i) Receive(i % kMany);
  std::atomic<int> sent{0}, finished{0}, received{0};
  const auto send = [&] {
    Completion done;
    const auto take = [&] { finished += static_cast<int>(a->cq->Poll({&done, 1})); };
    for (int i = sent++; i < kMessages; i = sent++) {
      // Changing subsets, so that each connection is idle for a while.
      const Pair& pair = pairs[static_cast<std::size_t>(i / 500 * 13 + i % 5) % kMany];
      while (!pair.of_a->Send(nullptr, {&out, 1}, 0).ok()) take();
      take();
    }
    while (finished < kMessages) take();
  };
  const auto receive = [&](bool waits) {
    Completion got;
    while (received < kMessages) {
      if (b->cq->Poll({&got, 1}) == 1) {
        EXPECT_EQ(got.status, StatusCode::kSuccess);
        ++received;
        Receive(reinterpret_cast<std::uintptr_t>(got.queue_pair_context));
      } else if (waits) {
        (void)b->cq->Wait(In(std::chrono::milliseconds(100)));
      }
    }
  };
  std::thread threads[] = {std::thread(send), std::thread(send), std::thread(receive, false),
                           std::thread(receive, true)};
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a->closed, 0) << a->seen->cause.ToString();
  Completion none;
  EXPECT_EQ(a->cq->Poll({&none, 1}) + b->cq->Poll({&none, 1}), 0u);
  EXPECT_EQ(received, kMessages);
  EXPECT_EQ(finished, kMessages);
}

TEST_P(ManyTest, ColdQueuePairReportsItsEnd) {
  PollUntilMostAreCold();
  Completion none;
  for (std::size_t i = 0; i < kMany; i += 2) {
    pairs[i].of_a->Drop();
    ASSERT_TRUE(b->Until([&] {
      b->cq->Poll({&none, 1});
      return pairs[i].b_saw_the_end->load();
    })) << i;
  }
  // The others end on this side, with data on the way to them.
  for (std::size_t i = 1; i < kMany; i += 2) {
    Send(i);
    pairs[i].of_b.reset();
  }
  pairs.clear();
  EXPECT_EQ(Hot(), 0u);
}

}  // namespace
}  // namespace nd::provider::soft
