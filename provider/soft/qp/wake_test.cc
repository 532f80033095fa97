// SPDX-License-Identifier: Apache-2.0
// No thread sleeps for ever: in every order of polls, visits of the progress thread and sleepers, the next
// message wakes its receiver.
#include <condition_variable>
#include <optional>
#include <thread>

#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/testing.h"
#include "provider/soft/qp/testing_os.h"

namespace nd::provider::soft {
namespace {

constexpr Duration kSoon = std::chrono::seconds(5);

// Returns false when the caller was not woken. Wait polls once more at its deadline, so its status does not
// tell.
bool Woken(CompletionQueue& queue) {
  const Time deadline = In(kSoon);
  return queue.Wait(deadline).ok() && Time(std::chrono::steady_clock::now()) < deadline;
}

// The test visits a queue pair in place of the progress thread, which is blocked.
class VisitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HandOffs both = MakeHandOffs(Link::kSharedRingOnly);
    doorbell_ = os::Duplicate(both.active.fds[1].get());
    ASSERT_TRUE(a_.qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(b_.qp->Attach(std::move(both.passive)).ok());
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(a_.qp->Receive(nullptr, {}).ok());
  }
  void SendToA() { ASSERT_TRUE(b_.qp->Send(nullptr, {}, kOpSilentSuccess).ok()); }
  // Polls and checks the descriptor, as Poll does regularly.
  void PollWithALook() {
    Deferred none;
    visited_.Drive(true, &none);
    Completion got;
    EXPECT_EQ(a_.cq->Poll({&got, 1}), 1u);
  }
  // A visit as the thread makes it. `meanwhile` runs between arming and the check for remaining work.
  template <typename F>
  Interest Visit(F meanwhile) {
    Deferred none;
    // The first one leaves a queue pair that was polled since the visit before.
    EXPECT_TRUE(visited_.Serve(&none) || visited_.Serve(&none));
    const bool barrier = visited_.Arm();
    meanwhile();
    return visited_.Settle(Sleeper::kProgressThread, !barrier || GlobalBarrier());
  }

  HeldUpThread held_up_;
  End a_, b_;
  SoftQueuePair& visited_ = dynamic_cast<SoftQueuePair&>(*a_.qp);
  UniqueFd doorbell_;
};

TEST_F(VisitTest, PollThatTakesTheDoorbellDuringAVisitCausesAnotherVisit) {
  ASSERT_FALSE(Visit([] {}).runnable);
  SendToA();
  ASSERT_TRUE(Readable(doorbell_.get())) << "the thread sleeps, so b rings";
  PollWithALook();  // Takes the doorbell and calls the thread.
  ASSERT_TRUE(a_.cq->Notify(NotifyType::kAny).ok());
  const Interest left = Visit([&] {
    SendToA();
    PollWithALook();  // The thread is visiting already, so it is not called.
    a_.cq->ConsumeNotification();
    ASSERT_TRUE(a_.cq->Notify(NotifyType::kAny).ok());
  });
  // From here on a sleeps until its handle is readable.
  SendToA();
  EXPECT_TRUE(left.runnable || Readable(doorbell_.get()))
      << "the thread sleeps, and b does not ring any more";
}

// As a program that polls its queue for the end of its own Write, and then its memory for that of the peer.
TEST_F(VisitTest, AfterDataThatNoPollFetchedTheNextIsFetchedAtOnce) {
  const auto polled_and_sent = [&] {
    PollWithALook();
    SendToA();
  };
  Deferred none;
  SendToA();
  for (std::uint32_t prompt = 8; prompt <= 16; prompt *= 2) {
    polled_and_sent();
    ASSERT_FALSE(visited_.Serve(&none)) << "a polls";
    ASSERT_TRUE(visited_.Serve(&none)) << "a did not poll since";
    for (std::uint32_t i = 0; i < prompt; ++i) {
      polled_and_sent();
      ASSERT_TRUE(visited_.Serve(&none)) << i << " of " << prompt;
    }
  }
  polled_and_sent();
  ASSERT_FALSE(visited_.Serve(&none));
  polled_and_sent();
  ASSERT_FALSE(visited_.Serve(&none)) << "a still polls";
  ASSERT_TRUE(visited_.Serve(&none));
  for (int i = 0; i < 8; ++i) {
    polled_and_sent();
    ASSERT_TRUE(visited_.Serve(&none)) << i;
  }
  polled_and_sent();
  EXPECT_FALSE(visited_.Serve(&none)) << "as few as at first";
}

TEST_F(VisitTest, EndOfASendThatIsNotReportedRingsForNobody) {
  Completion got;
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(b_.qp->Receive(nullptr, {}).ok());
    ASSERT_TRUE(a_.qp->Send(nullptr, {}, kOpSilentSuccess).ok());
    ASSERT_FALSE(Visit([] {}).runnable);
    ASSERT_EQ(b_.cq->Poll({&got, 1}), 1u);
    EXPECT_FALSE(Readable(doorbell_.get())) << "b rings although a waits for nothing";
    SendToA();
    EXPECT_TRUE(Readable(doorbell_.get())) << "a message";
    PollWithALook();
  }
}

TEST_F(VisitTest, EndOfASendThatIsReportedRings) {
  Completion got;
  for (const bool posted_first : {false, true}) {
    SCOPED_TRACE(posted_first);
    ASSERT_TRUE(b_.qp->Receive(nullptr, {}).ok());
    if (posted_first) {
      ASSERT_TRUE(a_.qp->Send(nullptr, {}, 0).ok());
    }
    ASSERT_FALSE(Visit([] {}).runnable);
    if (!posted_first) {
      ASSERT_TRUE(a_.qp->Send(nullptr, {}, 0).ok());
    }
    ASSERT_EQ(b_.cq->Poll({&got, 1}), 1u);
    EXPECT_TRUE(Readable(doorbell_.get()));
    PollWithALook();
  }
}

TEST_F(VisitTest, RequestThatIsReportedBehindASilentSendIsNotForgotten) {
  Completion got;
  Memory memory(a_, 64, false);
  for (const bool consumed_first : {false, true}) {
    SCOPED_TRACE(consumed_first);
    const auto window = a_.device->CreateWindow().value();
    ASSERT_TRUE(b_.qp->Receive(nullptr, {}).ok());
    ASSERT_TRUE(a_.qp->Send(nullptr, {}, kOpSilentSuccess).ok());
    ASSERT_FALSE(Visit([] {}).runnable);
    if (consumed_first) {
      ASSERT_EQ(b_.cq->Poll({&got, 1}), 1u);
    }
    // Complete at once, and reported behind the Send.
    ASSERT_TRUE(a_.qp->BindWindow(nullptr, *memory.region, *window, memory.data, 64, kOpAllowRead).ok());
    if (!consumed_first) {
      ASSERT_EQ(b_.cq->Poll({&got, 1}), 1u);
      EXPECT_TRUE(Readable(doorbell_.get())) << "b does not tell that the Send has ended";
      PollWithALook();
    } else {
      EXPECT_EQ(a_.cq->Poll({&got, 1}), 1u);
    }
  }
}

TEST_F(VisitTest, DisconnectBehindASilentSendDoesNotWaitForItsTimeout) {
  Completion got;
  ASSERT_TRUE(b_.qp->Receive(nullptr, {}).ok());
  ASSERT_TRUE(a_.qp->Send(nullptr, {}, kOpSilentSuccess).ok());
  ASSERT_FALSE(Visit([] {}).runnable);
  a_.qp->Disconnect(kPatience, [](const Status&) {});
  ASSERT_EQ(b_.cq->Poll({&got, 1}), 1u);
  EXPECT_TRUE(Readable(doorbell_.get())) << "a has its goodbye to say";
}

// A poll makes no round while the words of the peer are unchanged; the first one after a change must.
TEST(QuietConnection, OnePollNoticesEachChangeOfThePeer) {
  HeldUpThread held_up;
  HandOffs both = MakeHandOffs(Link::kSharedRingOnly);
  End a, b;
  ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
  Completion got;
  const auto be_quiet = [&] {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(a.cq->Poll({&got, 1}) + b.cq->Poll({&got, 1}), 0u);
  };
  be_quiet();
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(b.qp->Receive(Tag(1), {}).ok());
    be_quiet();
    ASSERT_TRUE(a.qp->Send(Tag(2), {}, 0).ok());
    EXPECT_EQ(a.cq->Poll({&got, 1}), 0u);
    EXPECT_EQ(a.cq->Poll({&got, 1}), 0u);  // Waits for the acknowledgement only.
    ASSERT_EQ(b.cq->Poll({&got, 1}), 1u) << "a record";
    ASSERT_EQ(a.cq->Poll({&got, 1}), 1u) << "an acknowledgement";
  }
  be_quiet();
  a.qp->Drop();
  b.cq->Poll({&got, 1});
  EXPECT_EQ(b.closed, 1) << "the end";
}

class WakeTest : public QpTest {};

// On one processor, so that the first woken thread finishes before the other one checks the signal.
TEST_P(WakeTest, TwoThreadsInWaitAndTwoCompletionsAtOnce) {
  Connect();
  std::mutex mutex;
  std::condition_variable changed;
  int round = 0, waiting = 0, got = 0;
  bool over = false;
  const int cpu = CurrentProcessor();
  const auto wait = [&] {
    ASSERT_TRUE(PinThisThread(cpu));
    for (int mine = 0;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return over || round > mine; });
        if (over) return;
        mine = round;
        ++waiting;
        changed.notify_all();
      }
      Completion completion;
      bool woken = true;
      while (woken && b->cq->Poll({&completion, 1}) == 0) woken = Woken(*b->cq);
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(woken) << "a completion is there, and the thread slept on";
      ++got;
      over = over || !woken;
      changed.notify_all();
    }
  };
  std::thread first(wait), second(wait);
  const auto tell = [&](auto change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  };
  const auto until = [&](auto condition) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over || condition(); });
  };
  for (int i = 0; i < 200 && !over; ++i) {
    for (int j = 0; j < 2; ++j) ASSERT_TRUE(b->qp->Receive(nullptr, {}).ok());
    tell([&] {
      waiting = got = 0;
      ++round;
    });
    until([&] { return waiting == 2; });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // Wait polls for 50 us.
    ASSERT_TRUE(b->qp->Flush().ok());
    until([&] { return got == 2; });
  }
  tell([&] { over = true; });
  first.join();
  second.join();
}

// Without a progress thread, a thread that takes a doorbell wakes the others that relied on it.
TEST_P(WakeTest, SleeperIsWokenWhenAnotherThreadTakesTheDoorbell) {
  Connect(16, {}, false);
  QpOptions options = b->Options();
  options.initiator_cq = b->device->CreateCompletionQueue(64).value();
  b->qp = b->device->CreateQueuePair(options).value();
  a->qp = a->device->CreateQueuePair(a->Options()).value();
  Join();
  auto& of_b = dynamic_cast<SoftQueuePair&>(*b->qp);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    bool woken = false;
    Completion got;
    ASSERT_TRUE(b->qp->Receive(nullptr, {}).ok());
    ASSERT_TRUE(a->qp->Receive(nullptr, {}).ok());
    std::thread sleeper([&] { woken = Woken(*b->cq); });
    std::this_thread::sleep_for(std::chrono::microseconds(i % 3 * 100 + 100));
    ASSERT_TRUE(b->qp->Send(nullptr, {}, 0).ok());
    // The other thread of b consumes wake-ups until its own request is complete.
    ASSERT_TRUE(b->Until([&] {
      Deferred none;
      a->cq->Poll({&got, 1});
      of_b.Drive(true, &none);
      return options.initiator_cq->Poll({&got, 1}) == 1;
    }));
    ASSERT_TRUE(a->qp->Send(nullptr, {}, kOpSilentSuccess).ok());
    sleeper.join();
    ASSERT_TRUE(woken);
    ASSERT_EQ(b->cq->Poll({&got, 1}), 1u);
    while (a->cq->Poll({&got, 1}) != 0) {
    }
  }
}

TEST_P(WakeTest, HandleReportsAllMessagesBeforeNotify) {
  Connect(16, {}, false);
  Memory mine = Mem(*a, 64), theirs(*b, 64, false);
  const Sge out = mine.At(0, 64);
  ASSERT_TRUE(b->qp->Receive(nullptr, {}).ok());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(a->qp->Write(nullptr, {&out, 1}, theirs.Address(), theirs.token(), kOpSilentSuccess).ok());
  }
  ASSERT_TRUE(a->qp->Send(nullptr, {}, kOpSilentSuccess).ok());
  Completion got;
  for (bool received = false; !received;) {
    ASSERT_TRUE(b->cq->Notify(NotifyType::kAny).ok());
    received = b->cq->Poll({&got, 1}) == 1;
    if (received) break;
    ASSERT_TRUE(Readable(b->cq->handle(), kSoon)) << "the rest is here, and nothing tells of it";
    b->cq->ConsumeNotification();
    received = b->cq->Poll({&got, 1}) == 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Links, WakeTest,
                         ::testing::Values(Case{Link::kShared, true}, Case{Link::kIwarp, false}),
                         [](const auto& c) { return NameOf(c.param.link); });

}  // namespace
}  // namespace nd::provider::soft
