// SPDX-License-Identifier: Apache-2.0
// An application that sleeps on the descriptor of its completion queue: the peer wakes it without the
// progress thread, and that thread serves the peer when the application does not come.
#include <optional>

#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

constexpr Duration kDirectSoon = std::chrono::seconds(5);

class DirectTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HandOffs both = MakeHandOffs(Link::kSharedRingOnly);
    ASSERT_TRUE(a_.qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(b_.qp->Attach(std::move(both.passive)).ok());
    // On a busy machine the progress thread comes before this thread at times. A signal may then tell
    // nothing, and the queue wants more useful ones before the transports wake it again.
    DirectPolicy as_of_the_queue;
    std::uint32_t behind = 0;
    for (int i = 0; i < 100'000 && behind < DirectPolicy::kFirst; ++i) {
      Arm();
      Send();
      while (!WokenByACompletion()) {
        as_of_the_queue.InVain();
        behind = 0;
      }
      as_of_the_queue.Useful();
      behind += as_of_the_queue.direct() ? 1 : 0;
      Take();
    }
    ASSERT_EQ(behind, DirectPolicy::kFirst);
  }
  bool WokenByACompletion() {
    EXPECT_TRUE(Woken());
    return b_.cq->ConsumeNotification() || HasFailure();
  }
  void Arm(NotifyType type = NotifyType::kAny) {
    ASSERT_EQ(b_.cq->Poll({&got_, 1}), 0u);
    ASSERT_TRUE(b_.cq->Notify(type).ok());
  }
  void Send() {
    ASSERT_TRUE(b_.qp->Receive(nullptr, {}).ok());
    ASSERT_TRUE(a_.qp->Send(nullptr, {}, kOpSilentSuccess).ok());
  }
  bool Woken(Duration patience = kDirectSoon) { return Readable(b_.cq->handle(), patience); }
  void Take() {
    ASSERT_EQ(b_.cq->Poll({&got_, 1}), 1u);
    EXPECT_EQ(got_.status, StatusCode::kSuccess);
  }
  // Through the ring, so that b has to answer it.
  void ReadMemoryOfB() {
    const Sge in = of_a_.At(0, 64);
    ASSERT_TRUE(a_.qp->Read(nullptr, {&in, 1}, of_b_.Address(), of_b_.token(), 0).ok());
  }

  End a_, b_;
  Memory of_a_{a_, 64, false}, of_b_{b_, 64, false};
  Completion got_;
};

TEST_F(DirectTest, MessageWakesTheApplicationWithoutTheProgressThread) {
  HeldUpThread held_up;
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    Arm();
    EXPECT_FALSE(Woken(Duration::zero()));
    Send();
    ASSERT_TRUE(Woken()) << "only the progress thread could have told";
    EXPECT_TRUE(b_.cq->ConsumeNotification());
    EXPECT_FALSE(Woken(Duration::zero()));
    Take();
  }
}

TEST_F(DirectTest, DoorbellOfAMessageThatAPollHasTakenWakesNobody) {
  HeldUpThread held_up;
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    Arm();
    Send();
    Take();
    b_.cq->ConsumeNotification();
    Arm();
    EXPECT_FALSE(Woken(Duration::zero()));
    b_.cq->ConsumeNotification();
  }
}

TEST_F(DirectTest, MessageBeforeNotifyIsReportedToo) {
  HeldUpThread held_up;
  ASSERT_EQ(b_.cq->Poll({&got_, 1}), 0u);
  Send();
  ASSERT_TRUE(b_.cq->Notify(NotifyType::kAny).ok());
  ASSERT_TRUE(Woken());
  EXPECT_TRUE(b_.cq->ConsumeNotification());
  Take();
}

TEST_F(DirectTest, WorkWithoutACompletionLeavesTheNotificationPending) {
  std::optional<HeldUpThread> held_up(std::in_place);
  Arm();
  ReadMemoryOfB();
  ASSERT_TRUE(Woken());
  EXPECT_FALSE(b_.cq->ConsumeNotification()) << "no completion came";
  EXPECT_EQ(a_.Next().status, StatusCode::kSuccess);
  held_up.reset();
  EXPECT_EQ(b_.cq->Poll({&got_, 1}), 0u);
  EXPECT_FALSE(Woken(Duration::zero()));
  // Armed as before, and woken by the thread.
  ReadMemoryOfB();
  EXPECT_EQ(a_.Next().status, StatusCode::kSuccess);
  EXPECT_FALSE(Woken(Duration::zero()));
  Send();
  while (!WokenByACompletion()) {
  }
  Take();
}

TEST_F(DirectTest, ThreadServesThePeerOfAnApplicationThatDoesNotCome) {
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    Arm();
    ReadMemoryOfB();
    EXPECT_EQ(a_.Next(kDirectSoon).status, StatusCode::kSuccess);
    b_.cq->ConsumeNotification();
    Send();
    ASSERT_TRUE(Woken());
    while (!b_.cq->ConsumeNotification()) ASSERT_TRUE(Woken());
    Take();
  }
}

TEST_F(DirectTest, OtherKindsAreReportedByTheThread) {
  Arm(NotifyType::kErrors);
  Send();
  EXPECT_FALSE(Woken(std::chrono::milliseconds(50)));
  ASSERT_TRUE(b_.cq->Notify(NotifyType::kAny).ok());
  while (!WokenByACompletion()) {
  }
  Take();
}

TEST_F(DirectTest, HandleIsNotReadableForEverWhenThePeerIsGone) {
  Arm();
  a_.qp->Drop();
  ASSERT_TRUE(b_.Until([&] { return b_.closed == 1; }));
  b_.qp.reset();
  b_.cq->ConsumeNotification();
  while (b_.cq->Poll({&got_, 1}) != 0) {
  }
  b_.cq->ConsumeNotification();
  EXPECT_FALSE(Woken(Duration::zero()));
}

}  // namespace
}  // namespace nd::provider::soft
