// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/iwarp/first_part.h"

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

TEST(FirstPartTest, ThePeerWaitsWhenItHasReceivedEverythingOrHasAnswered) {
  EXPECT_TRUE(PeerWaits({}));
  EXPECT_FALSE(PeerWaits({.unconfirmed = true})) << "a stream";
  EXPECT_TRUE(PeerWaits({.unconfirmed = true, .heard = true})) << "Sends without completions, in turns";
  EXPECT_FALSE(PeerWaits({.inside_message = true})) << "the first part has gone";
  EXPECT_FALSE(PeerWaits({.inside_message = true, .heard = true}));
}

TEST(FirstPartTest, OnlyALongMessageIsSentInParts) {
  EXPECT_TRUE(EndsFirstPart(true, true, kFirstPart));
  EXPECT_FALSE(EndsFirstPart(true, true, kFirstPart - 1)) << "frames of one TCP segment gather";
  EXPECT_FALSE(EndsFirstPart(true, false, kFirstPart))
      << "the confirmation behind it needs no call of its own";
  EXPECT_FALSE(EndsFirstPart(false, true, kFirstPart)) << "a stream fills its batches";
}

TEST(FirstPartTest, AFrameBetweenNdbrokersCarries32KiB) {
  constexpr std::uint32_t kFrame = 32 * 1024;
  HeldUpThread held_up;
  End a, b;
  HandOffs both = MakeHandOffs(Link::kIwarp);
  ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
  Memory from(a, 4 * kFrame, false), to(b, 4 * kFrame, false);
  from.Fill(1);
  std::uint64_t before = 0;
  const auto frames = [&](std::uint32_t size) {
    const Sge sge = from.At(0, size), room = to.At(0, to.size);
    EXPECT_TRUE(b.qp->Receive(nullptr, {&room, 1}).ok());
    EXPECT_TRUE(a.qp->Send(nullptr, {&sge, 1}, 0).ok());
    EXPECT_EQ(b.Next().bytes_transferred, size);
    Completion done;
    while (a.cq->Poll({&done, 1}) == 0) b.cq->Poll({&done, 0});
    EXPECT_EQ(std::memcmp(from.data, to.data, size), 0);
    constexpr std::uint64_t kConfirmation = 1;
    const std::uint64_t now = a.counters.wire_frames.load();
    return now - std::exchange(before, now) - kConfirmation;
  };
  EXPECT_EQ(frames(kFrame), 1u);
  EXPECT_EQ(frames(kFrame + 1), 2u);
  EXPECT_EQ(frames(2 * kFrame), 2u);
  EXPECT_EQ(frames(4 * kFrame), 4u);
}

}  // namespace
}  // namespace nd::provider::soft
