// SPDX-License-Identifier: Apache-2.0
// The beginning of a connection within one host: what its ends do without being asked, and what they show.
#include <thread>

#include "base/lane_sender.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"
#include "provider/soft/qp/token_table.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

// `asleep`: as the broker makes the segment; otherwise as one of an earlier version does.
HandOffs WithSides(bool asleep) {
  HandOffs both = MakeHandOffs(Link::kShared);
  if (asleep) return both;
  Mapping segment = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
  for (SideControl& side : reinterpret_cast<Segment*>(segment.data())->side) side.armed = 0;
  return both;
}

TEST(AttachTest, ASegmentWithSleepingSidesCallsNoThread) {
  for (const bool asleep : {true, false}) {
    HandOffs both = WithSides(asleep);
    End a, b;
    ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
    if (asleep) {
      std::this_thread::sleep_for(ms(50));
      EXPECT_EQ(a.counters.wakeups.load() + b.counters.wakeups.load(), 0u);
    } else {
      EXPECT_TRUE(a.Until([&] { return a.counters.wakeups != 0 && b.counters.wakeups != 0; }));
    }
    // The thread of b notices what comes, without a call of the application.
    Memory from(a, 64, false), to(b, 64, false);
    from.Fill(3);
    const Sge in = to.At(0, 64), out = from.At(0, 64);
    ASSERT_TRUE(b.qp->Receive(nullptr, {&in, 1}).ok());
    ASSERT_TRUE(a.qp->Send(nullptr, {&out, 1}, 0).ok());
    EXPECT_TRUE(b.Until([&] { return b.counters.rx_sends == 1; })) << asleep;
    EXPECT_EQ(b.Next().status, StatusCode::kSuccess);
    EXPECT_EQ(std::memcmp(from.data, to.data, 64), 0);
  }
}

TEST(AttachTest, ASendBeforeTheAttachIsFound) {
  HandOffs both = WithSides(true);
  End a, b;
  Memory from(a, 64, false), to(b, 64, false);
  const Sge in = to.At(0, 64), out = from.At(0, 64);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(b.qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(a.qp->Send(nullptr, {&out, 1}, 0).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
  EXPECT_EQ(b.counters.rx_sends.load(), 1u);
  // The doorbell of the first one is used up, so the thread has armed again.
  ASSERT_TRUE(a.qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_TRUE(b.Until([&] { return b.counters.rx_sends == 2; }));
}

// One real end, which is polled. The peer is this test.
class TableTest : public ::testing::Test {
 protected:
  TableTest() : memory_(end_, 64, true), table_(CreateSealedMemfd("test-table", kRegionTableSize).value()) {
    HandOffs both = WithSides(false);
    socket_ = std::move(both.passive.fds[1]);
    EXPECT_TRUE(end_.qp->Attach(std::move(both.active)).ok());
  }
  // The next datagram that comes within the time; 0: none.
  std::size_t Next(FdMessage* message, std::byte* first) {
    std::array<std::byte, 64> bytes{};
    for (const Time end = In(ms(50)); Time(std::chrono::steady_clock::now()) < end;) {
      Completion done;
      end_.cq->Poll({&done, 1});
      auto got = ReceiveWithFds(socket_.get(), bytes, false);
      if (!got.ok()) continue;
      *message = std::move(got).value();
      *first = bytes[0];
      return message->size;
    }
    return 0;
  }
  void ExpectTheTableAndNothingElse() {
    FdMessage message;
    std::byte first{};
    ASSERT_EQ(Next(&message, &first), 1u);
    EXPECT_EQ(first, kTableFollows);
    ASSERT_EQ(Next(&message, &first), sizeof(ShareMessage));
    ASSERT_EQ(message.fds.size(), 1u);
    EXPECT_EQ(CheckSealedMemfd(message.fds[0].get(), kRegionTableSize).value(), kRegionTableSize);
    EXPECT_EQ(Next(&message, &first), 0u);
  }
  void ShowTableOfThePeer() {
    const ShareMessage message{.kind = ShareMessage::kRegionTable};
    const int fd = table_.get();
    ASSERT_TRUE(SendInMyName(socket_.get(), std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok());
  }

  End end_{{}, false};
  Memory memory_;
  const UniqueFd table_;
  UniqueFd socket_;
};

TEST_F(TableTest, IsNotShownToAPeerThatGetsSendsAlone) {
  const Sge out = memory_.At(0, 64);
  ASSERT_TRUE(end_.qp->Send(nullptr, {&out, 1}, 0).ok());
  FdMessage message;
  std::byte first{};
  EXPECT_EQ(Next(&message, &first), 0u);
}

TEST_F(TableTest, IsShownOnceWhenThatOfThePeerIsNeeded) {
  const Sge out = memory_.At(0, 64);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(end_.qp->Write(nullptr, {&out, 1}, 4096, 7, 0).ok());
  ExpectTheTableAndNothingElse();
  ShowTableOfThePeer();
  ASSERT_TRUE(end_.qp->Write(nullptr, {&out, 1}, 4096, 7, 0).ok());
  FdMessage message;
  std::byte first{};
  EXPECT_EQ(Next(&message, &first), 0u);
}

// A peer of an earlier version shows its table at once, without an announcement.
TEST_F(TableTest, AnswersThatOfThePeer) {
  ShowTableOfThePeer();
  // A poll reads the socket of a quiet connection rarely.
  for (int i = 0; i < 2000; ++i) {
    Completion done;
    end_.cq->Poll({&done, 1});
  }
  ExpectTheTableAndNothingElse();
}

}  // namespace
}  // namespace nd::provider::soft
