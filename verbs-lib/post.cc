// SPDX-License-Identifier: Apache-2.0
// The data path: posted requests.
#include <arpa/inet.h>

#include <cerrno>
#include <cstdint>

#include "verbs-lib/device.h"
#include "verbs-lib/fault_guard.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/queue_pair.h"
#include "verbs-lib/regions.h"
#include "verbs-lib/window.h"

namespace nd::verbs_lib {
namespace {

template <typename Request>
LocalPieces PiecesOf(const Request& request) {
  return LocalPieces(std::span(request.sg_list, static_cast<std::size_t>(request.num_sge)));
}

void KeepFlushed(QueuePair* queue_pair, CompletionQueue* queue, std::uint64_t id, ibv_wc_opcode opcode,
                 ibv_wc_status status = IBV_WC_WR_FLUSH_ERR) {
  ibv_wc flushed{};
  flushed.wr_id = id;
  flushed.status = status;
  flushed.opcode = opcode;
  flushed.qp_num = queue_pair->base().qp_num;
  if (!queue_pair->KeepsBack(flushed)) queue->Keep(flushed);
}

ibv_wc_opcode OpcodeOf(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    default:
      return IBV_WC_SEND;
  }
}

std::uint32_t FlagsOf(const QueuePair& queue_pair, unsigned send_flags) {
  std::uint32_t flags = 0;
  if (queue_pair.init.sq_sig_all == 0 && (send_flags & IBV_SEND_SIGNALED) == 0) flags |= kOpSilentSuccess;
  if ((send_flags & IBV_SEND_FENCE) != 0) flags |= kOpReadFence;
  if ((send_flags & IBV_SEND_INLINE) != 0) flags |= kOpInline;
  return flags;
}

bool IsAnswered(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
         opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

template <typename Request>
int Refused(Request* first, Request** bad) {
  if (bad != nullptr) *bad = first;
  return ENODEV;
}

int PostOne(QueuePair* queue_pair, const ibv_send_wr& request) {
  if (queue_pair->base().qp_type == IBV_QPT_UC && IsAnswered(request.opcode)) return EINVAL;
  if (request.num_sge < 0 || (request.send_flags & IBV_SEND_IP_CSUM) != 0) return EINVAL;
  const LocalPieces pieces = PiecesOf(request);
  const auto sges = SgesOf(pieces.get());
  const std::uint32_t flags = FlagsOf(*queue_pair, request.send_flags);
  const std::uint32_t solicit =
      (request.send_flags & IBV_SEND_SOLICITED) != 0 ? std::uint32_t{kOpSendAndSolicit} : 0;
  void* context = ContextOf(request.wr_id);
  nd::QueuePair& sender = queue_pair->sender;
  Status status;
  switch (request.opcode) {
    case IBV_WR_SEND:
      status = sender.Send(context, sges, flags | solicit);
      break;
    case IBV_WR_SEND_WITH_INV:
      status = sender.SendAndInvalidate(context, sges, request.invalidate_rkey, flags | solicit);
      break;
    case IBV_WR_RDMA_WRITE:
      status = sender.Write(context, sges, request.wr.rdma.remote_addr, request.wr.rdma.rkey, flags);
      break;
    case IBV_WR_RDMA_READ:
      status =
          sender.Read(context, sges, request.wr.rdma.remote_addr, request.wr.rdma.rkey, flags & ~kOpInline);
      break;
    case IBV_WR_SEND_WITH_IMM:
      status = sender.SendWithImmediate(context, sges, ntohl(request.imm_data), flags | solicit);
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      status = sender.WriteWithImmediate(context, sges, request.wr.rdma.remote_addr, request.wr.rdma.rkey,
                                         ntohl(request.imm_data), flags | solicit);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_ATOMIC_CMP_AND_SWP: {
      if (sges.size() != 1) return EINVAL;
      const auto& atomic = request.wr.atomic;
      const std::uint32_t kept = flags & ~kOpInline;
      status =
          request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
              ? sender.FetchAdd(context, sges[0], atomic.remote_addr, atomic.rkey, atomic.compare_add, kept)
              : sender.CompareSwap(context, sges[0], atomic.remote_addr, atomic.rkey, atomic.compare_add,
                                   atomic.swap, kept);
      break;
    }
    case IBV_WR_BIND_MW:
      // Its window would be that of the end that sends, and requests arrive at the other one.
      if (request.bind_mw.mw != nullptr && request.bind_mw.mw->type == IBV_MW_TYPE_2 &&
          queue_pair->has_second()) {
        return EOPNOTSUPP;
      }
      if (const int error =
              PostBind(sender, queue_pair->base(), request, flags & ~std::uint32_t{kOpInline}, &status)) {
        return error;
      }
      break;
    case IBV_WR_LOCAL_INV:
      status = sender.InvalidateToken(context, request.invalidate_rkey, flags & ~std::uint32_t{kOpInline});
      break;
    default:
      return EOPNOTSUPP;
  }
  if (status.ok()) return 0;
  if (status == StatusCode::kNotSupported) {
    // The peer does not know the operation: the request fails as on a device, and the queue pair with it.
    KeepFlushed(queue_pair, queue_pair->send_cq, request.wr_id, OpcodeOf(request.opcode),
                IBV_WC_LOC_QP_OP_ERR);
    queue_pair->Flush();
    return 0;
  }
  if (status == StatusCode::kConnectionInvalid && queue_pair->state() == IBV_QPS_RTS) {
    // The connection has ended, and the program has not noticed yet.
    KeepFlushed(queue_pair, queue_pair->send_cq, request.wr_id, OpcodeOf(request.opcode));
    return 0;
  }
  return ErrnoOf(status);
}

}  // namespace

int PostSendOf(QueuePair* queue_pair, const ibv_send_wr& request) {
  const ibv_qp_state state = queue_pair->state();
  if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
    KeepFlushed(queue_pair, queue_pair->send_cq, request.wr_id, OpcodeOf(request.opcode));
    return 0;
  }
  if (state != IBV_QPS_RTS && state != IBV_QPS_SQD) return EINVAL;
  if (queue_pair->datagrams) return queue_pair->datagrams->PostSend(request);
  if (ByNumber* connection = queue_pair->sender_by_number.get(); connection && connection->waiting()) {
    connection->OnPosted(TimeOfRetries(queue_pair->attributes));
  }
  return PostOne(queue_pair, request);
}

int PostSend(ibv_qp* abi, ibv_send_wr* first, ibv_send_wr** bad) {
  if (InForkedChild()) return Refused(first, bad);
  const MemoryAccess access;
  for (ibv_send_wr* request = first; request != nullptr; request = request->next) {
    const bool bind = request->opcode == IBV_WR_BIND_MW;
    // Windows of type 1 are for ibv_bind_mw.
    const bool mistake =
        bind && (request->bind_mw.mw == nullptr || request->bind_mw.mw->type != IBV_MW_TYPE_2);
    if (const int error = mistake ? EINVAL : PostSendOf(FromAbi(abi), *request)) {
      if (bad != nullptr) *bad = request;
      return error;
    }
  }
  return 0;
}

int PostReceive(ibv_qp* abi, ibv_recv_wr* first, ibv_recv_wr** bad) {
  if (InForkedChild()) return Refused(first, bad);
  const MemoryAccess access;
  QueuePair* queue_pair = FromAbi(abi);
  for (ibv_recv_wr* request = first; request != nullptr; request = request->next) {
    int error = 0;
    const ibv_qp_state state = __atomic_load_n(&abi->state, __ATOMIC_RELAXED);
    if (state == IBV_QPS_ERR) {
      KeepFlushed(queue_pair, queue_pair->receive_cq, request->wr_id, IBV_WC_RECV);
    } else if (state == IBV_QPS_RESET || request->num_sge < 0) {
      error = EINVAL;
    } else if (queue_pair->datagrams) {
      error = queue_pair->datagrams->PostReceive(*request);
    } else {
      error = ErrnoOf(queue_pair->real.Receive(ContextOf(request->wr_id), SgesOf(PiecesOf(*request).get())));
    }
    if (error != 0) {
      if (bad != nullptr) *bad = request;
      return error;
    }
  }
  return 0;
}

int PostSrqReceive(ibv_srq* abi, ibv_recv_wr* first, ibv_recv_wr** bad) {
  if (InForkedChild()) return Refused(first, bad);
  const MemoryAccess access;
  for (ibv_recv_wr* request = first; request != nullptr; request = request->next) {
    const int error = FromAbi(abi)->Post(*request);
    if (error != 0) {
      if (bad != nullptr) *bad = request;
      return error;
    }
  }
  return 0;
}

}  // namespace nd::verbs_lib
