// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/work_completion.h"

#include <arpa/inet.h>

#include <cstring>

#include "verbs-lib/numbers.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {
namespace {

ibv_wc_opcode OpcodeOf(RequestType type) {
  switch (type) {
    case RequestType::kReceive:
      return IBV_WC_RECV;
    case RequestType::kSend:
      return IBV_WC_SEND;
    case RequestType::kBind:
      return IBV_WC_BIND_MW;
    case RequestType::kInvalidate:
      return IBV_WC_LOCAL_INV;
    case RequestType::kRead:
      return IBV_WC_RDMA_READ;
    case RequestType::kWrite:
      return IBV_WC_RDMA_WRITE;
    case RequestType::kFetchAdd:
      return IBV_WC_FETCH_ADD;
    case RequestType::kCompareSwap:
      return IBV_WC_COMP_SWAP;
  }
  return IBV_WC_SEND;
}

}  // namespace

ibv_wc_status ToWorkStatus(StatusCode code, RequestType type) {
  switch (code) {
    case StatusCode::kSuccess:
      return IBV_WC_SUCCESS;
    case StatusCode::kCanceled:
    case StatusCode::kConnectionInvalid:
    case StatusCode::kConnectionDisconnected:
      return IBV_WC_WR_FLUSH_ERR;
    case StatusCode::kAccessViolation:
      if (type == RequestType::kBind) return IBV_WC_MW_BIND_ERR;
      if (type == RequestType::kInvalidate) return IBV_WC_LOC_QP_OP_ERR;
      return type == RequestType::kReceive || type == RequestType::kSend ? IBV_WC_LOC_PROT_ERR
                                                                         : IBV_WC_REM_ACCESS_ERR;
    case StatusCode::kBufferOverflow:
    case StatusCode::kDataOverrun:
      return type == RequestType::kReceive ? IBV_WC_LOC_LEN_ERR : IBV_WC_REM_INV_REQ_ERR;
    case StatusCode::kRemoteError:
      return IBV_WC_REM_OP_ERR;
    case StatusCode::kIoTimeout:
    case StatusCode::kConnectionAborted:
      return IBV_WC_RETRY_EXC_ERR;
    default:
      return IBV_WC_LOC_QP_OP_ERR;
  }
}

bool ToWorkCompletion(const Completion& from, ibv_wc* to) {
  const auto number = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(from.queue_pair_context));
  if (!NumberExists(number)) return false;
  std::memset(to, 0, sizeof *to);
  to->wr_id = reinterpret_cast<std::uintptr_t>(from.request_context);
  to->status = ToWorkStatus(from.status, from.type);
  if ((from.flags & kCompletionNoReceive) != 0) to->status = IBV_WC_RNR_RETRY_EXC_ERR;
  if ((from.flags & kCompletionOwnMemory) != 0) to->status = IBV_WC_LOC_PROT_ERR;
  to->opcode = OpcodeOf(from.type);
  to->byte_len = from.bytes_transferred;
  to->qp_num = number;
  if ((from.flags & kCompletionImmediate) != 0) {
    to->wc_flags = IBV_WC_WITH_IMM;
    to->imm_data = htonl(from.immediate);
    if ((from.flags & kCompletionOfWrite) != 0) to->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  }
  if ((from.flags & kCompletionInvalidated) != 0) {
    to->wc_flags = IBV_WC_WITH_INV;
    to->invalidated_rkey = from.immediate;
  }
  if (to->status == IBV_WC_SUCCESS) return true;
  const auto queue_pair = FindQueuePair(number);
  if (!queue_pair) return true;
  const bool lost = to->status == IBV_WC_WR_FLUSH_ERR || to->status == IBV_WC_RETRY_EXC_ERR;
  if (lost && queue_pair->by_number) {
    if (from.type != RequestType::kReceive && queue_pair->by_number->TakeExpiry()) {
      to->status = IBV_WC_RETRY_EXC_ERR;
      return true;
    }
    if (queue_pair->KeepsBack(*to)) return false;
  }
  if (to->status != IBV_WC_WR_FLUSH_ERR) queue_pair->FailSoon();
  return true;
}

}  // namespace nd::verbs_lib
