// SPDX-License-Identifier: Apache-2.0
// A thread in Wait sleeps on words of memory at first, and its peers wake those instead of their sockets.
#include <sys/socket.h>

#include <future>
#include <thread>

#include "base/os/word_sleep.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using std::chrono::milliseconds;

// A connection of which the test sees the segment, and the sockets of both sides.
struct Connection {
  Connection(QueuePair& side_a, QueuePair& side_b) : of_b(side_b) {
    HandOffs both = MakeHandOffs(Link::kSharedRingOnly);
    mapping = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    socket_of_b = os::Duplicate(both.passive.fds[1].get());
    EXPECT_TRUE(side_a.Attach(std::move(both.active)).ok());
    EXPECT_TRUE(side_b.Attach(std::move(both.passive)).ok());
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(side_a.Receive(nullptr, {}).ok());
  }
  void SendToA() const { EXPECT_TRUE(of_b.Send(nullptr, {}, kOpSilentSuccess).ok()); }
  std::atomic<std::uint32_t>& armed() const { return segment().side[0].armed; }
  std::atomic<std::uint32_t>& wakes_words() const { return segment().side[1].wakes_words; }

  QueuePair& of_b;
  Mapping mapping;
  UniqueFd socket_of_b;

 private:
  Segment& segment() const { return *reinterpret_cast<Segment*>(mapping.data()); }
};

// Only the thread in Wait moves data, because the progress thread is held up.
class SleepOnWordsTest : public ::testing::Test {
 protected:
  explicit SleepOnWordsTest(const Tuning& tuning = {}) : a_(tuning) {}
  void SetUp() override {
    if (!os::CanSleepOnWords()) GTEST_SKIP() << "this kernel is older than 5.16";
  }
  // Returns true when the call was woken, and not late by its time.
  std::future<bool> WaitOfA() {
    return std::async(std::launch::async, [this] {
      const Time deadline = In(kPatience);
      return a_.cq->Wait(deadline).ok() && Time(std::chrono::steady_clock::now()) < deadline;
    });
  }
  bool SleepsOnWord() const { return (connection_.armed().load() & kByWord) != 0; }
  // Returns when a sleeps on the word, or on its descriptors because this thread came too late.
  void AwaitSleep() {
    const Time enough = In(milliseconds(30));
    while (Time(std::chrono::steady_clock::now()) < enough) {
      if (!SleepsOnWord()) continue;
      ++on_word_;
      return;
    }
  }
  std::size_t Take() {
    Completion got[16];
    return a_.cq->Poll(got);
  }

  int on_word_ = 0;  // How often AwaitSleep() saw that.
  HeldUpThread held_up_;
  End a_;
  End b_;
  Connection connection_{*a_.qp, *b_.qp};
};

TEST_F(SleepOnWordsTest, MessageWakesTheWaiter) {
  for (int i = 0; i < 100; ++i) {
    std::future<bool> woken = WaitOfA();
    AwaitSleep();
    connection_.SendToA();
    ASSERT_TRUE(woken.get()) << i;
    EXPECT_FALSE(SleepsOnWord()) << "nobody sleeps, so nobody would see that the word is woken";
    EXPECT_EQ(Take(), 1u);
  }
  EXPECT_GT(on_word_, 0);
}

TEST_F(SleepOnWordsTest, LongSleepIsOnTheDescriptors) {
  std::future<bool> woken = WaitOfA();
  AwaitSleep();
  ASSERT_TRUE(a_.Until([&] { return !SleepsOnWord(); }));
  EXPECT_NE(connection_.armed().load(), 0u);
  connection_.SendToA();
  EXPECT_TRUE(woken.get());
}

TEST_F(SleepOnWordsTest, PeerThatDoesNotWakeWordsSendsAByte) {
  connection_.wakes_words().store(0);
  for (int i = 0; i < 20; ++i) {
    std::future<bool> woken = WaitOfA();
    const Time enough = In(milliseconds(3));
    while (Time(std::chrono::steady_clock::now()) < enough) ASSERT_FALSE(SleepsOnWord());
    connection_.SendToA();
    ASSERT_TRUE(woken.get()) << i;
    EXPECT_EQ(Take(), 1u);
  }
}

// The sleeper armed for messages alone; then another thread posts a Send whose end is to be reported.
TEST_F(SleepOnWordsTest, EndOfASendOfAnotherThreadWakesTheWaiter) {
  Completion got;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(b_.qp->Receive(nullptr, {}).ok());
    std::future<bool> woken = WaitOfA();
    AwaitSleep();
    ASSERT_TRUE(a_.qp->Send(nullptr, {}, 0).ok());
    EXPECT_NE(connection_.armed().load() & ~kByWord, kArmedForRecords) << "b would not tell the end";
    ASSERT_TRUE(b_.Until([&] { return b_.cq->Poll({&got, 1}) == 1; }));
    ASSERT_TRUE(woken.get()) << i;
    EXPECT_EQ(Take(), 1u);
  }
}

// It sleeps on the words alone, for longer than the test waits.
class WordsAloneTest : public SleepOnWordsTest {
 protected:
  WordsAloneTest() : SleepOnWordsTest({.on_words = 2 * kPatience}) {}
};

TEST_F(WordsAloneTest, CompletionByAnotherThreadWakesTheWaiter) {
  for (int i = 0; i < 20; ++i) {
    std::future<bool> woken = WaitOfA();
    ASSERT_TRUE(a_.Until([&] { return SleepsOnWord(); }));
    std::this_thread::sleep_for(milliseconds(1));  // The word was set before the thread sleeps.
    connection_.armed().store(0);                  // So b wakes nobody.
    connection_.SendToA();
    // A poll does nothing while the other thread moves data.
    while (woken.wait_for(Duration::zero()) != std::future_status::ready) a_.cq->Poll({});
    ASSERT_TRUE(woken.get()) << i;
    EXPECT_EQ(Take(), 1u);
  }
}

TEST_F(SleepOnWordsTest, TwoWaitersOfOneQueueMissNothing) {
  std::atomic<int> taken = 0;
  constexpr int kMessages = 150;
  const auto take_all = [&] {
    while (taken.load() < kMessages) {
      if (!a_.cq->Wait(In(milliseconds(50))).ok()) continue;
      taken += static_cast<int>(Take());
    }
  };
  std::thread one(take_all), two(take_all);
  const Time deadline = In(kPatience);
  for (int i = 1; i <= kMessages; ++i) {
    connection_.SendToA();
    while (taken.load() < i && Time(std::chrono::steady_clock::now()) < deadline) std::this_thread::yield();
  }
  EXPECT_EQ(taken.load(), kMessages);
  taken = kMessages;
  one.join();
  two.join();
}

// The words tell nothing of a peer that ends, and this waiter never sleeps for long.
TEST_F(SleepOnWordsTest, EndOfOnePeerIsSeenWhileAnotherSends) {
  End c;
  const auto second = a_.device->CreateQueuePair(a_.Options()).value();
  const Connection dies(*second, *c.qp);
  const auto exchange = [&](int messages) {
    for (int i = 0; i < messages && a_.closed == 0; ++i) {
      std::future<bool> woken = WaitOfA();
      AwaitSleep();
      connection_.SendToA();
      ASSERT_TRUE(woken.get()) << i;
      Take();
      std::this_thread::sleep_for(milliseconds(1));
    }
  };
  exchange(20);  // After some, a polls no more before it sleeps.
  ::shutdown(dies.socket_of_b.get(), SHUT_RDWR);
  exchange(100);
  EXPECT_EQ(a_.closed, 1);
  second->Drop();
}

}  // namespace
}  // namespace nd::provider::soft
