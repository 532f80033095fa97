// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/qp_ex.h"

#include <algorithm>
#include <cerrno>

#include "verbs-lib/export.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {
namespace {

QueuePair* Of(ibv_qp_ex* abi) {
  return FromAbi(&abi->qp_base);
}

SendBatch& BatchOf(ibv_qp_ex* abi) {
  return Of(abi)->extended->batch;
}

ibv_send_wr& Begin(ibv_qp_ex* abi, ibv_wr_opcode opcode) {
  return BatchOf(abi).Begin(opcode, abi->wr_id, abi->wr_flags);
}

void BeginRdma(ibv_qp_ex* abi, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
               __be32 immediate = 0) {
  ibv_send_wr& request = Begin(abi, opcode);
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  request.imm_data = immediate;
}

void BeginAtomic(ibv_qp_ex* abi, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
                 std::uint64_t compare_add, std::uint64_t swap) {
  ibv_send_wr& request = Begin(abi, opcode);
  request.wr.atomic.remote_addr = address;
  request.wr.atomic.rkey = key;
  request.wr.atomic.compare_add = compare_add;
  request.wr.atomic.swap = swap;
}

void Start(ibv_qp_ex* abi) {
  Of(abi)->extended->mutex.lock();
  BatchOf(abi).Clear();
}

void Abort(ibv_qp_ex* abi) {
  Of(abi)->extended->mutex.unlock();
}

int Complete(ibv_qp_ex* abi) {
  std::lock_guard lock(Of(abi)->extended->mutex, std::adopt_lock);
  if (const int error = BatchOf(abi).error()) return error;
  ibv_send_wr* bad = nullptr;
  return PostSend(&abi->qp_base, BatchOf(abi).Chain(), &bad);
}

// One operation, and how its function gets there. Functions of operations that were not asked for stay null,
// as on devices.
struct Offer {
  std::uint64_t operation;
  void (*set)(ibv_qp_ex*);
};

constexpr Offer kOffers[] = {
    {IBV_QP_EX_WITH_SEND, [](ibv_qp_ex* q) { q->wr_send = [](ibv_qp_ex* e) { Begin(e, IBV_WR_SEND); }; }},
    {IBV_QP_EX_WITH_SEND_WITH_IMM,
     [](ibv_qp_ex* q) {
       q->wr_send_imm = [](ibv_qp_ex* e, __be32 immediate) {
         Begin(e, IBV_WR_SEND_WITH_IMM).imm_data = immediate;
       };
     }},
    {IBV_QP_EX_WITH_SEND_WITH_INV,
     [](ibv_qp_ex* q) {
       q->wr_send_inv = [](ibv_qp_ex* e, std::uint32_t key) {
         Begin(e, IBV_WR_SEND_WITH_INV).invalidate_rkey = key;
       };
     }},
    {IBV_QP_EX_WITH_RDMA_WRITE,
     [](ibv_qp_ex* q) {
       q->wr_rdma_write = [](ibv_qp_ex* e, std::uint32_t key, std::uint64_t address) {
         BeginRdma(e, IBV_WR_RDMA_WRITE, key, address);
       };
     }},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
     [](ibv_qp_ex* q) {
       q->wr_rdma_write_imm = [](ibv_qp_ex* e, std::uint32_t key, std::uint64_t address, __be32 immediate) {
         BeginRdma(e, IBV_WR_RDMA_WRITE_WITH_IMM, key, address, immediate);
       };
     }},
    {IBV_QP_EX_WITH_RDMA_READ,
     [](ibv_qp_ex* q) {
       q->wr_rdma_read = [](ibv_qp_ex* e, std::uint32_t key, std::uint64_t address) {
         BeginRdma(e, IBV_WR_RDMA_READ, key, address);
       };
     }},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
     [](ibv_qp_ex* q) {
       q->wr_atomic_cmp_swp = [](ibv_qp_ex* e, std::uint32_t key, std::uint64_t address,
                                 std::uint64_t compare, std::uint64_t swap) {
         BeginAtomic(e, IBV_WR_ATOMIC_CMP_AND_SWP, key, address, compare, swap);
       };
     }},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
     [](ibv_qp_ex* q) {
       q->wr_atomic_fetch_add = [](ibv_qp_ex* e, std::uint32_t key, std::uint64_t address,
                                   std::uint64_t add) {
         BeginAtomic(e, IBV_WR_ATOMIC_FETCH_AND_ADD, key, address, add, 0);
       };
     }},
    {IBV_QP_EX_WITH_LOCAL_INV,
     [](ibv_qp_ex* q) {
       q->wr_local_inv = [](ibv_qp_ex* e, std::uint32_t key) {
         Begin(e, IBV_WR_LOCAL_INV).invalidate_rkey = key;
       };
     }},
    {IBV_QP_EX_WITH_BIND_MW,
     [](ibv_qp_ex* q) {
       q->wr_bind_mw = [](ibv_qp_ex* e, ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info* info) {
         ibv_send_wr& request = Begin(e, IBV_WR_BIND_MW);
         request.bind_mw.mw = window;
         request.bind_mw.rkey = key;
         request.bind_mw.bind_info = *info;
       };
     }},
};

constexpr std::uint64_t kAnsweredOps =
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr std::uint64_t kDatagramOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

}  // namespace

std::uint64_t SendOpsOf(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return kDatagramOps;
  std::uint64_t all = 0;
  for (const Offer& offer : kOffers) all |= offer.operation;
  return type == IBV_QPT_UC ? all & ~kAnsweredOps : all;
}

void OfferExtendedPosts(QueuePair* queue_pair, std::uint64_t operations) {
  const ibv_qp_cap& cap = queue_pair->init.cap;
  queue_pair->extended = std::make_unique<ExtendedPosts>(
      SendBatch::Limits{.sges = std::max(cap.max_send_sge, 1u), .inline_bytes = cap.max_inline_data});
  ibv_qp_ex& abi = queue_pair->abi;
  for (const Offer& offer : kOffers) {
    if ((operations & offer.operation) != 0) offer.set(&abi);
  }
  abi.wr_start = Start;
  abi.wr_complete = Complete;
  abi.wr_abort = Abort;
  abi.wr_set_sge = [](ibv_qp_ex* e, std::uint32_t key, std::uint64_t address, std::uint32_t length) {
    const ibv_sge piece{.addr = address, .length = length, .lkey = key};
    BatchOf(e).SetSges({&piece, 1});
  };
  abi.wr_set_sge_list = [](ibv_qp_ex* e, std::size_t count, const ibv_sge* pieces) {
    BatchOf(e).SetSges({pieces, count});
  };
  abi.wr_set_inline_data = [](ibv_qp_ex* e, void* data, std::size_t length) {
    const ibv_data_buf piece{data, length};
    BatchOf(e).SetInline({&piece, 1});
  };
  abi.wr_set_inline_data_list = [](ibv_qp_ex* e, std::size_t count, const ibv_data_buf* pieces) {
    BatchOf(e).SetInline({pieces, count});
  };
  abi.wr_set_ud_addr = [](ibv_qp_ex* e, ibv_ah* handle, std::uint32_t number, std::uint32_t qkey) {
    BatchOf(e).SetAddress(handle, number, qkey);
  };
}

}  // namespace nd::verbs_lib

NDBROKER_PUBLIC ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* abi) {
  auto* queue_pair = nd::verbs_lib::FromAbi(abi);
  if (queue_pair->extended) return &queue_pair->abi;
  errno = EOPNOTSUPP;
  return nullptr;
}
