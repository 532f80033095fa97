// SPDX-License-Identifier: Apache-2.0
// A barrier that leaves out the peer's processor: the sleeper does not see a record, and the peer does not
// see that the sleeper is armed. The sleeper finds the record at its second look.
#include <optional>
#include <thread>

#include "provider/soft/qp/drive/poll_set.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

class LateStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RegisterGlobalBarrier()) GTEST_SKIP() << "the kernel has no barrier for the host";
    HandOffs both = MakeHandOffs(Link::kSharedRingOnly);
    mapping_ = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    ASSERT_TRUE(sleeper_.qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(peer_.qp->Attach(std::move(both.passive)).ok());
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(sleeper_.qp->Receive(nullptr, {}).ok());
    // Until the progress thread sleeps without a deadline.
    std::this_thread::sleep_for(20 * kStoresSettle);
    held_up_.emplace();
  }
  Segment& segment() { return *reinterpret_cast<Segment*>(mapping_->data()); }
  void Send() {
    ASSERT_TRUE(peer_.qp->Send(nullptr, {}, kOpSilentSuccess).ok());
    ++sent_;
  }
  // The peer publishes, and sees a sleeper that is not armed. The record is not seen before Arrive().
  void SendLate() {
    std::atomic<std::uint32_t>& armed = segment().side[0].armed;
    const std::uint32_t before = armed.exchange(0);
    Send();
    Stamp().store(0);
    segment().side[1].fences.store(0);
    armed.store(before);
  }
  void Arrive() { Stamp().store(1); }
  Interest Sleep(Sleeper sleeper) {
    const bool barrier = queue_pair_.Arm();
    return queue_pair_.Settle(sleeper, !barrier || GlobalBarrier());
  }
  std::uint64_t received() { return queue_pair_.counters().rx_sends.load(); }

  End sleeper_, peer_;
  SoftQueuePair& queue_pair_ = dynamic_cast<SoftQueuePair&>(*sleeper_.qp);
  std::optional<Mapping> mapping_;
  std::uint32_t sent_ = 0;
  std::optional<HeldUpThread> held_up_;

 private:
  std::atomic<std::uint32_t>& Stamp() { return segment().ring[1].slots[sent_ - 1].stamp; }
};

TEST_F(LateStoreTest, ASleeperLooksASecondTimeAndNotAThird) {
  for (const Sleeper sleeper : {Sleeper::kWaiter, Sleeper::kProgressThread}) {
    SCOPED_TRACE(static_cast<int>(sleeper));
    Deferred none;
    Send();
    queue_pair_.Drive(true, &none);  // Takes the doorbell too.
    SendLate();
    const Interest first = Sleep(sleeper);
    ASSERT_FALSE(first.runnable);
    ASSERT_LE(first.deadline, In(kStoresSettle));
    Arrive();
    std::this_thread::sleep_until(first.deadline);
    EXPECT_TRUE(queue_pair_.Drive(true, &none));
    EXPECT_EQ(received(), sent_);
    const Interest second = Sleep(sleeper);
    EXPECT_FALSE(second.runnable);
    EXPECT_EQ(second.deadline, Time::max()) << "an idle connection costs nothing";
  }
}

// A peer of an earlier version never says that it fences.
TEST_F(LateStoreTest, ASleeperNeedsNeitherBarrierNorSecondLookWhileThePeerFences) {
  Deferred none;
  Send();  // With a doorbell.
  queue_pair_.Drive(true, &none);
  EXPECT_FALSE(queue_pair_.Arm());
  EXPECT_EQ(queue_pair_.Settle(Sleeper::kWaiter, true).deadline, Time::max());
  int without_doorbell = 0;
  do {
    segment().side[0].armed = 0;
    ASSERT_TRUE(sleeper_.qp->Receive(nullptr, {}).ok());
    Send();
    queue_pair_.Drive(false, &none);
  } while (!queue_pair_.Arm() && ++without_doorbell < 1000);
  EXPECT_GT(without_doorbell, 1);
  EXPECT_LT(without_doorbell, 100) << "fences that nobody needs";
  const Interest left = queue_pair_.Settle(Sleeper::kWaiter, GlobalBarrier());
  EXPECT_LE(left.deadline, In(kStoresSettle));
  EXPECT_EQ(received(), sent_);
}

TEST_F(LateStoreTest, TheThreadLooksForAnEventLoop) {
  Completion got;
  Send();
  ASSERT_EQ(sleeper_.cq->Poll({&got, 1}), 1u);
  SendLate();
  const Interest left = Sleep(Sleeper::kEventLoop);
  EXPECT_FALSE(left.runnable);
  EXPECT_EQ(left.deadline, Time::max());
  Arrive();
  held_up_.reset();
  EXPECT_TRUE(sleeper_.Until([&] { return received() == sent_; }));
}

}  // namespace
}  // namespace nd::provider::soft
