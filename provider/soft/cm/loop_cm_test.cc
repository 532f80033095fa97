// SPDX-License-Identifier: Apache-2.0
// Two applications of one host. No TCP connection is made.
#include "provider/soft/cm/loop_cm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <vector>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "provider/soft/cm/cm_test_util.h"
#include "provider/soft/segment.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

class Loop : public CmFixture {
 protected:
  void SetUp() override { ASSERT_NO_FATAL_FAILURE(Open(h, 1)); }
  CmId Request() {
    ConnectParams params = To(TestAddress(1, 50001), TestAddress(1, 7000));
    params.owner_uid = 1000;
    params.owner_pid = 11;
    h.cm->Connect(params);
    const Recorded request = Next(h);
    EXPECT_EQ(request.kind, Recorded::kRequest);
    EXPECT_EQ(request.request.local, TestAddress(1, 7000));
    EXPECT_EQ(request.request.remote, TestAddress(1, 50001));
    EXPECT_EQ(request.limits, (ReadLimits{16, 16}));
    EXPECT_EQ(request.data, (Bytes{1, 2, 3}));
    EXPECT_NE(static_cast<std::uint64_t>(request.id) & kInboundBit, 0u);
    EXPECT_EQ(h.cm->handshakes(), 1u);
    return request.id;
  }
  CmId Reply(std::uint32_t uid = 1000) {
    const CmId inbound = Request();
    h.cm->Accept(inbound, {{8, 4}, {9}, 0, uid, 22});
    const Recorded reply = Next(h);
    EXPECT_EQ(reply.kind, Recorded::kReply);
    EXPECT_EQ(reply.id, CmId{1});
    EXPECT_EQ(reply.data, (Bytes{9}));
    EXPECT_EQ(reply.limits, (ReadLimits{8, 4}));
    return inbound;
  }
  CmId Establish(std::uint32_t uid = 1000) {
    const CmId inbound = Reply(uid);
    h.cm->Confirm(CmId{1});
    EXPECT_EQ(Next(h).kind, Recorded::kEstablished);
    EXPECT_EQ(Next(h).kind, Recorded::kEstablished);
    return inbound;
  }
  void ExpectNothingLeft() {
    EXPECT_TRUE(h.sink.events.empty());
    EXPECT_EQ(h.cm->handshakes(), 0u);
  }
  Host h;
};

TEST_F(Loop, HandsOneSealedSegmentToBothSides) {
  const std::size_t idle = CountDescriptors();
  {
    const CmId inbound = Establish();
    auto active = h.cm->TakeHandOff(CmId{1});
    auto passive = h.cm->TakeHandOff(inbound);
    ASSERT_TRUE(active.ok() && passive.ok());
    EXPECT_EQ(active->record.transport, kShared);
    EXPECT_EQ(active->record.flags, kHandOffActive | kHandOffConfirm | kHandOffShareMemory);
    EXPECT_EQ(passive->record.flags, kHandOffConfirm | kHandOffShareMemory);
    EXPECT_EQ(active->record.read_inbound, 4u);
    EXPECT_EQ(active->record.read_outbound, 8u);
    EXPECT_EQ(passive->record.read_inbound, 8u);
    EXPECT_EQ(passive->record.read_outbound, 4u);
    EXPECT_EQ(PayloadOf<SharedPayload>(active->record).segment_size, kSegmentSize);
    EXPECT_EQ(active->record.peer_pid, 22u);
    EXPECT_EQ(passive->record.peer_pid, 11u);
    ASSERT_EQ(active->fds.size(), 2u);
    ASSERT_EQ(passive->fds.size(), 2u);
    EXPECT_TRUE(CheckSealedMemfd(active->fds[0].get(), kSegmentSize).ok());
    auto map_a = Mapping::Map(active->fds[0].get(), kSegmentSize, true);
    auto map_p = Mapping::Map(passive->fds[0].get(), kSegmentSize, false);
    // Both sides sleep from the start, and all else is 0.
    std::vector<std::byte> expected(kSegmentSize);
    for (const std::size_t at : kArmedWords) expected[at] = std::byte{kArmed};
    EXPECT_EQ(std::memcmp(map_p->data(), expected.data(), kSegmentSize), 0);
    map_a->data()[100] = std::byte{42};
    EXPECT_EQ(map_p->data()[100], std::byte{42});
    const std::byte ring{1};
    EXPECT_TRUE(SendWithFds(active->fds[1].get(), {&ring, 1}, {}).ok());
    std::byte heard[4];
    EXPECT_EQ(ReceiveWithFds(passive->fds[1].get(), heard, false)->size, 1u);
    EXPECT_FALSE(h.cm->TakeHandOff(inbound).ok());
    h.cm->Abort(inbound);
    h.cm->Abort(CmId{1});
  }
  EXPECT_EQ(CountDescriptors(), idle);
  ExpectNothingLeft();
}

TEST_F(Loop, ProcessOfAnotherUserMayNotMapBuffers) {
  const CmId inbound = Establish(1001);
  EXPECT_EQ(h.cm->TakeHandOff(inbound)->record.flags & kHandOffShareMemory, 0u);
  EXPECT_EQ(h.cm->TakeHandOff(CmId{1})->record.flags & kHandOffShareMemory, 0u);
}

TEST_F(Loop, ExtensionsNeedBothApplications) {
  for (const unsigned who : {0u, 1u, 2u, 3u}) {
    ConnectParams connect = To(TestAddress(1, 50001), TestAddress(1, 7000));
    connect.extensions = (who & 1) != 0;
    h.cm->Connect(connect);
    const CmId inbound = Next(h).request.id;
    AcceptParams accept;
    accept.extensions = (who & 2) != 0;
    h.cm->Accept(inbound, accept);
    EXPECT_EQ(Next(h).kind, Recorded::kReply);
    h.cm->Confirm(CmId{1});
    EXPECT_EQ(Next(h).kind, Recorded::kEstablished);
    EXPECT_EQ(Next(h).kind, Recorded::kEstablished);
    const std::uint32_t expected = who == 3 ? std::uint32_t{kHandOffExtensions} : 0u;
    EXPECT_EQ(h.cm->TakeHandOff(inbound)->record.flags & kHandOffExtensions, expected) << who;
    EXPECT_EQ(h.cm->TakeHandOff(CmId{1})->record.flags & kHandOffExtensions, expected) << who;
    h.cm->Abort(inbound);
    h.cm->Abort(CmId{1});
  }
}

TEST_F(Loop, RejectionsGoBothWays) {
  h.cm->Reject(Request(), Detail::kPeerRejected, {7});
  Recorded seen = Next(h);
  EXPECT_EQ(seen.kind, Recorded::kRejected);
  EXPECT_EQ(seen.id, CmId{1});
  EXPECT_EQ(seen.status.detail(), Detail::kPeerRejected);
  EXPECT_EQ(seen.data, (Bytes{7}));
  h.cm->Reject(Request(), Detail::kBacklogFull, {7});
  seen = Next(h);
  EXPECT_EQ(seen.status.detail(), Detail::kBacklogFull);
  EXPECT_TRUE(seen.data.empty());
  const CmId inbound = Reply();
  h.cm->Reject(CmId{1}, Detail::kPeerRejected, {8});
  seen = Next(h);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.id, inbound);
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(seen.data, (Bytes{8}));
  ExpectNothingLeft();
}

TEST_F(Loop, WithdrawalIsSeenInEveryState) {
  CmId inbound = Request();
  h.cm->Abort(CmId{1});
  Recorded seen = Next(h);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.id, inbound);
  EXPECT_EQ(seen.status.detail(), Detail::kPeerWithdrew);
  h.cm->Abort(Request());
  EXPECT_EQ(Next(h).kind, Recorded::kRejected);
  inbound = Reply();
  h.cm->Abort(CmId{1});
  EXPECT_EQ(Next(h).id, inbound);
  h.cm->Abort(Reply());
  seen = Next(h);
  EXPECT_EQ(seen.kind, Recorded::kLost);
  EXPECT_EQ(seen.id, CmId{1});
  EXPECT_EQ(seen.status.code(), StatusCode::kConnectionAborted);
  ExpectNothingLeft();
}

TEST_F(Loop, AbortAfterEstablishmentLeavesTheOtherSideItsHandOff) {
  const std::size_t idle = CountDescriptors();
  const CmId inbound = Establish();
  h.cm->Abort(inbound);
  {
    auto active = h.cm->TakeHandOff(CmId{1});
    ASSERT_TRUE(active.ok());
    // The doorbell already reports the end of the peer.
    std::byte heard[4];
    EXPECT_EQ(ReceiveWithFds(active->fds[1].get(), heard, false).code(), StatusCode::kConnectionDisconnected);
  }
  EXPECT_EQ(CountDescriptors(), idle);
}

TEST_F(Loop, RunningOutOfDescriptorsEndsBothSidesAndRecovers) {
  const std::size_t idle = CountDescriptors();
  const CmId inbound = Reply();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit saved = limit;
  const UniqueFd next(fcntl(0, F_DUPFD_CLOEXEC, 3));
  // Leaves room for the segment only.
  limit.rlim_cur = static_cast<rlim_t>(next.get()) + 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  h.cm->Confirm(CmId{1});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &saved), 0);
  const Recorded first = Next(h), second = Next(h);
  EXPECT_EQ(first.kind, Recorded::kLost);
  EXPECT_EQ(first.status.code(), StatusCode::kInsufficientResources);
  EXPECT_EQ(second.id, inbound);
  EXPECT_EQ(CountDescriptors(), idle + 1);
  Establish();
}

TEST_F(Loop, UnknownIdsAreIgnored) {
  h.cm->Abort(CmId{77});
  h.cm->Confirm(CmId{77});
  h.cm->Accept(CmId{77}, {});
  h.cm->Reject(CmId{77}, Detail::kPeerRejected, {});
  EXPECT_FALSE(h.cm->TakeHandOff(CmId{77}).ok());
  ExpectNothingLeft();
}

}  // namespace
}  // namespace nd::provider::soft
