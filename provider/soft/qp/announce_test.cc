// SPDX-License-Identifier: Apache-2.0
// Many connections over shared memory on one completion queue: quiet ones rest, and their peers announce what
// they publish (drive/ready_page.h). The progress thread is blocked, so that only calls of the test move
// data.
#include <optional>

#include "base/fd_lane.h"
#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kConnections = 64, kAlwaysHot = 4;
// More polls than those after which each connection was looked at in its turn.
constexpr int kTurns = 2 * 1024 * static_cast<int>(kConnections + 8);

// The other end of a connection of b, by hand: a process that announces only when the test says so.
class SilentPeer {
 public:
  explicit SilentPeer(End& b) {
    HandOffs both = MakeHandOffs(Link::kShared);
    segment_ = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    socket_ = std::move(both.active.fds[1]);
    QpOptions options = b.Options();
    options.receive_depth = options.initiator_depth = 4;
    qp = b.device->CreateQueuePair(options).value();
    EXPECT_TRUE(qp->Attach(std::move(both.passive)).ok());
  }
  // Consumes all, and claims to announce. Returns the page, if it has come.
  std::optional<Mapping> Adopt() {
    std::optional<Mapping> page;
    for (;;) {
      ShareMessage message;
      auto got = ReceiveWithFds(socket_.get(), std::as_writable_bytes(std::span(&message, 1)), false);
      if (!got.ok()) break;
      if (got->size != sizeof message || message.kind != ShareMessage::kReadyPage) continue;
      page = Mapping::Map(got->fds[0].get(), sizeof(ReadyCounters), true).value();
    }
    if (!page) return page;
    std::uint32_t published = 0;
    while (segment().ring[1].slots[published].stamp != 0) ++published;
    segment().side[0].consumed = published;
    segment().side[0].announces = 1;
    return page;
  }
  void Die() { socket_.reset(); }

  std::shared_ptr<QueuePair> qp;

 private:
  Segment& segment() { return *reinterpret_cast<Segment*>(segment_.data()); }

  Mapping segment_;
  UniqueFd socket_;
};

class AnnounceTest : public ::testing::Test {
 protected:
  void Connect() {
    for (std::size_t i = 0; i < kConnections; ++i) {
      HandOffs both = MakeHandOffs(Link::kShared);
      of_a_.push_back(Attached(a_, std::move(both.active)));
      of_b_.push_back(Attached(b_, std::move(both.passive)));
    }
  }
  static std::shared_ptr<QueuePair> Attached(End& end, HandOff hand_off) {
    QpOptions options = end.Options();
    options.receive_depth = options.initiator_depth = 4;
    auto queue_pair = end.device->CreateQueuePair(options).value();
    EXPECT_TRUE(queue_pair->Attach(std::move(hand_off)).ok());
    return queue_pair;
  }
  static std::size_t Hot(End& end) { return dynamic_cast<SoftCompletionQueue&>(*end.cq).poll_set().hot(); }
  std::size_t PollOnce(End& end) { return end.cq->Poll({&got_, 1}); }
  void PollBothUntilMostRest() {
    for (int i = 0; i < kTurns && (Hot(a_) > kAlwaysHot || Hot(b_) > kAlwaysHot); ++i) {
      ASSERT_EQ(PollOnce(a_) + PollOnce(b_), 0u);
    }
    ASSERT_LE(Hot(a_), kAlwaysHot);
    ASSERT_LE(Hot(b_), kAlwaysHot);
  }
  void Send(std::size_t i) {
    ASSERT_TRUE(of_b_[i]->Receive(nullptr, {}).ok());
    ASSERT_TRUE(of_a_[i]->Send(Tag(i), {}, 0).ok());
  }

  HeldUpThread held_up_;
  End a_{Tuning{.rnr_timeout = kPatience}}, b_{Tuning{.rnr_timeout = kPatience}};
  std::vector<std::shared_ptr<QueuePair>> of_a_, of_b_;
  Completion got_;
};

TEST_F(AnnounceTest, NextPollFindsTheRecordAndTheEndOfTheRequest) {
  Connect();
  PollBothUntilMostRest();
  for (std::size_t i = 0; i < 3 * kConnections; ++i) {
    const std::size_t which = i * 7 % kConnections;
    Send(which);
    ASSERT_EQ(PollOnce(b_), 1u) << i;
    EXPECT_EQ(got_.type, RequestType::kReceive);
    ASSERT_EQ(PollOnce(a_), 1u) << i;
    EXPECT_EQ(got_.request_context, Tag(which));
    EXPECT_EQ(got_.status, StatusCode::kSuccess);
    // Others rest meanwhile, those of the messages too.
    for (int polls = 0; polls < 40; ++polls) ASSERT_EQ(PollOnce(a_) + PollOnce(b_), 0u);
    EXPECT_LE(Hot(a_), kAlwaysHot + 1);
    EXPECT_LE(Hot(b_), kAlwaysHot + 1);
  }
}

TEST_F(AnnounceTest, AnnouncementsAreReadAlsoWhileAHotConnectionIsBusy) {
  Connect();
  PollBothUntilMostRest();
  const std::size_t busy = 0, resting = kConnections / 2;
  bool found = false;
  for (int i = 0; i < 3; ++i) {
    Send(busy);
    ASSERT_EQ(PollOnce(b_) + PollOnce(a_), 2u);
  }
  Send(resting);
  for (int polls = 0; polls < 32 && !found; ++polls) {
    Send(busy);
    ASSERT_EQ(PollOnce(b_), 1u);
    ASSERT_EQ(PollOnce(a_), 1u);
    found = got_.request_context == Tag(resting);
    while (PollOnce(a_) != 0) found = found || got_.request_context == Tag(resting);
  }
  EXPECT_TRUE(found);
}

TEST_F(AnnounceTest, ThreadThatWaitsIsWokenByAConnectionThatRested) {
  Connect();
  for (std::size_t i = 0; i < kConnections; i += 5) {
    PollBothUntilMostRest();
    Completion woken;
    std::thread sleeper([&] { woken = b_.Next(); });
    // Wait polls for 50 us before it sleeps.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Send(i);
    sleeper.join();
    ASSERT_EQ(woken.status, StatusCode::kSuccess) << i;
    ASSERT_EQ(a_.Next().request_context, Tag(i));
  }
}

TEST_F(AnnounceTest, ConnectionEndsWhileItRests) {
  Connect();
  PollBothUntilMostRest();
  for (std::size_t i = 0; i < kConnections; ++i) {
    of_a_[i]->Drop();
    for (int polls = 0; polls < 4; ++polls) PollOnce(b_);
    EXPECT_EQ(b_.closed, static_cast<int>(i + 1));
  }
  of_b_.clear();
  EXPECT_EQ(Hot(b_), 0u);
  EXPECT_EQ(PollOnce(b_), 0u);
}

TEST_F(AnnounceTest, ProgressThreadLeavesRestingConnectionsToTheThreadThatPolls) {
  Connect();
  PollBothUntilMostRest();
  for (std::size_t i = 0; i < kConnections; ++i) {
    auto& queue_pair = dynamic_cast<SoftQueuePair&>(*of_b_[i]);
    Deferred deferred;
    queue_pair.Serve(&deferred);
    PollOnce(b_);
    EXPECT_FALSE(queue_pair.Serve(&deferred)) << "the announcements were read since the last visit";
    EXPECT_TRUE(queue_pair.Serve(&deferred)) << "nobody polls";
  }
}

TEST_F(AnnounceTest, PeerThatDoesNotAnnounceIsPolled) {
  std::vector<SilentPeer> peers;
  for (std::size_t i = 0; i < kConnections; ++i) peers.emplace_back(b_);
  for (int i = 0; i < 10'000; ++i) PollOnce(b_);
  EXPECT_EQ(Hot(b_), kConnections);
  ASSERT_TRUE(peers[7].Adopt());
  for (int i = 0; i < 1000; ++i) PollOnce(b_);
  EXPECT_EQ(Hot(b_), kConnections - 1);
  EXPECT_FALSE(peers[7].Adopt()) << "it is asked once";
}

TEST_F(AnnounceTest, PeersThatDieWithoutAnAnnouncementAreNoticed) {
  constexpr int kDying = 2 * kAlwaysHot;  // So at least half of them rest.
  std::vector<SilentPeer> peers;
  for (int i = 0; i < kDying; ++i) peers.emplace_back(b_);
  Connect();
  for (SilentPeer& peer : peers)
    while (!peer.Adopt()) ASSERT_EQ(PollOnce(a_) + PollOnce(b_), 0u);
  PollBothUntilMostRest();
  for (SilentPeer& peer : peers) peer.Die();
  for (int i = 0; i < kTurns && b_.closed != kDying; ++i) PollOnce(b_);
  EXPECT_EQ(b_.closed, kDying);
}

// Another process of the same user, which has the page too.
TEST_F(AnnounceTest, AnnouncementThatAnotherProcessTakesBackDelaysTheRecordOnly) {
  SilentPeer other(b_);
  Connect();
  std::optional<Mapping> page;
  for (int i = 0; i < kTurns && !(page = other.Adopt()); ++i) ASSERT_EQ(PollOnce(a_) + PollOnce(b_), 0u);
  ASSERT_TRUE(page);
  PollBothUntilMostRest();
  const std::vector<std::byte> before(page->data(), page->data() + page->size());
  int delayed = 0;
  for (std::size_t i = 0; i < kConnections; ++i) {
    Send(i);
    std::memcpy(page->data(), before.data(), before.size());
    int polls = 1;
    while (PollOnce(b_) == 0) ASSERT_LT(++polls, kTurns) << i;
    EXPECT_EQ(got_.status, StatusCode::kSuccess);
    delayed += polls > 100 ? 1 : 0;
    while (PollOnce(a_) == 0) {
    }
  }
  EXPECT_GT(delayed, 0) << "the announcements were not the way by which the records were found";
}

}  // namespace
}  // namespace nd::provider::soft
