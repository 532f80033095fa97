// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/iwarp/faults.h"

#include <gtest/gtest.h>

#include "provider/soft/wire/rdmap.h"

namespace nd::provider::soft {
namespace {

InitiatorRequest& Post(WorkRing<InitiatorRequest>* queue, Op op, std::uint64_t mark) {
  InitiatorRequest& request = queue->at(queue->head++);
  request.op = op;
  request.mark = mark;
  queue->next = queue->head;
  return request;
}

// The status of the failed request is the same on both transports.
TEST(Faults, APeerLearnsTheReasonFromTheFault) {
  for (const EndCode code : {EndCode::kRemoteAccess, EndCode::kNoReceive}) {
    EXPECT_EQ(EndCodeOf(FaultFor(code)), code) << static_cast<int>(code);
  }
  for (const EndCode code :
       {EndCode::kTooLong, EndCode::kProtocol, EndCode::kLocal, EndCode::kReceiveFailed}) {
    EXPECT_EQ(StatusOfFailedRequest(EndCodeOf(FaultFor(code))), StatusOfFailedRequest(code));
  }
}

TEST(Faults, EveryRefusalIsAnAccessViolation) {
  using enum SoftQueuePair::Refusal;
  for (const auto why : {kInvalidStag, kBounds, kRights, kOtherQueuePair}) {
    EXPECT_EQ(EndCodeOf(WriteFault(why)), EndCode::kRemoteAccess);
    EXPECT_EQ(EndCodeOf(ReadFault(why)), EndCode::kRemoteAccess);
    EXPECT_TRUE(wire::IsKnown(WriteFault(why)));
    EXPECT_TRUE(wire::IsKnown(ReadFault(why)));
  }
}

TEST(Faults, ATerminateNamesTheRequestOfItsSegment) {
  WorkRing<InitiatorRequest> queue(8);
  Post(&queue, Op::kSend, 7);
  InitiatorRequest& write = Post(&queue, Op::kWrite, 0);
  write.token = 0x1234;
  write.remote_address = 1000;
  write.list.length = 50;
  Post(&queue, Op::kRead, 7);
  Post(&queue, Op::kSendInvalidate, 8);

  wire::DdpHeader header;
  header.queue = wire::kSendQueue;
  header.msn = 8;
  EXPECT_EQ(RequestOf(queue, header), 3u);
  header.queue = wire::kReadRequestQueue;
  EXPECT_EQ(RequestOf(queue, header), std::nullopt);
  header.msn = 7;
  EXPECT_EQ(RequestOf(queue, header), 2u);

  header.tagged = true;
  header.stag = 0x1234;
  for (const std::uint64_t offset : {1000, 1050}) {
    header.offset = offset;
    EXPECT_EQ(RequestOf(queue, header), 1u) << offset;
  }
  for (const std::uint64_t offset : {999, 1051}) {
    header.offset = offset;
    EXPECT_EQ(RequestOf(queue, header), std::nullopt) << offset;
  }
}

TEST(Faults, ARequestThatWasNotStartedIsNotNamed) {
  WorkRing<InitiatorRequest> queue(8);
  Post(&queue, Op::kSend, 1);
  queue.next = queue.tail;
  wire::DdpHeader header;
  header.queue = wire::kSendQueue;
  header.msn = 1;
  EXPECT_EQ(RequestOf(queue, header), std::nullopt);
}

}  // namespace
}  // namespace nd::provider::soft
