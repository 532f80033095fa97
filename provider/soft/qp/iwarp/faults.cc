// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/iwarp/faults.h"

#include <string>

#include "provider/soft/wire/rdmap.h"

namespace nd::provider::soft {
namespace {

struct RefusalFaults {
  wire::Fault invalid_stag, bounds, rights, other_queue_pair;
};

wire::Fault Choose(const RefusalFaults& from, SoftQueuePair::Refusal why) {
  switch (why) {
    case SoftQueuePair::Refusal::kBounds:
      return from.bounds;
    case SoftQueuePair::Refusal::kOtherQueuePair:
      return from.other_queue_pair;
    case SoftQueuePair::Refusal::kRights:
      return from.rights;
    default:
      return from.invalid_stag;
  }
}

}  // namespace

wire::Fault WriteFault(SoftQueuePair::Refusal why) {
  using namespace wire::fault;
  return Choose({kDdpInvalidStag, kDdpBounds, kAccessRights, kDdpStagNotAssociated}, why);
}

wire::Fault ReadFault(SoftQueuePair::Refusal why) {
  using namespace wire::fault;
  return Choose({kInvalidStag, kBounds, kAccessRights, kStagNotAssociated}, why);
}

wire::Fault FaultFor(EndCode code) {
  if (code == EndCode::kNoReceive) return wire::fault::kNoBuffer;
  if (code == EndCode::kTooLong) return wire::fault::kMessageTooLong;
  if (code == EndCode::kProtocol) return wire::fault::kStreamCatastrophic;
  if (code == EndCode::kReceiveFailed) return wire::fault::kOperationUnspecified;
  if (code == EndCode::kRemoteAccess) return wire::fault::kInvalidStag;
  return wire::fault::kLocalCatastrophic;
}

EndCode EndCodeOf(const wire::Fault& fault) {
  if (fault == wire::fault::kNoBuffer) return EndCode::kNoReceive;
  // Protection errors of RDMAP and tagged-buffer errors of DDP.
  if (fault.layer != wire::Layer::kLlp && fault.type == 1) return EndCode::kRemoteAccess;
  return EndCode::kProtocol;
}

Status EndedBy(const char* side, const wire::Fault& fault) {
  return {StatusCode::kConnectionAborted, std::string(side) + " ended it: " + wire::Describe(fault) + ".",
          Detail::kProtocol};
}

std::optional<std::uint64_t> RequestOf(const WorkRing<InitiatorRequest>& queue,
                                       const wire::DdpHeader& header) {
  for (std::uint64_t i = queue.tail; i != queue.next; ++i) {
    const InitiatorRequest& request = queue.at(i);
    bool hit = false;
    if (header.tagged) {
      hit = IsWrite(request.op) && request.token == header.stag && header.offset >= request.remote_address &&
            header.offset - request.remote_address <= request.list.length;
    } else if (header.queue == wire::kSendQueue) {
      hit = (IsSend(request.op) || request.op == Op::kWriteImmediate) && request.mark == header.msn;
    } else if (header.queue == wire::kReadRequestQueue) {
      hit = IsAnswered(request.op) && request.mark == header.msn;
    }
    if (hit) return i;
  }
  return std::nullopt;
}

}  // namespace nd::provider::soft
