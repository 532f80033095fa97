// SPDX-License-Identifier: Apache-2.0
// Queue pairs and shared receive queues.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <mutex>

#include "nd/nd.h"
#include "verbs-lib/completion.h"

namespace nd::verbs_lib {

// Set in the destination number of a queue pair that rdma_cm connects. Its transport arrives with the
// connection, not with the change to RTR.
inline constexpr std::uint32_t kConnectedByCm = 0x800000;

struct SharedReceiveQueue {
  ibv_srq abi{};
  nd::SharedReceiveQueue queue;
  std::uint32_t depth = 0, max_sge = 0;
};

// Programs hold a pointer to `abi`, as ibv_qp or as ibv_qp_ex.
struct QueuePair {
  ibv_qp_ex abi{};
  ibv_qp_init_attr init{};
  ibv_qp_attr attributes{};  // What ibv_modify_qp was told.
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;

  std::mutex mutex;  // Guards `pair` against its replacement.

  ibv_qp& base() { return abi.qp_base; }
  // A copy of the handle, for the connection manager.
  nd::QueuePair pair();
  // Opens a fresh queue pair of the library under the same number.
  Status Renew();
  void SetState(ibv_qp_state state);
  // The connection manager has attached the transport.
  void OnEstablished();
  // The connection manager says that the connection ended and that devices of this kind flush now.
  void Flush();

  nd::QueuePair real;  // Replaced under `mutex`.
};

inline QueuePair* FromAbi(ibv_qp* queue_pair) {
  return reinterpret_cast<QueuePair*>(queue_pair);
}
inline SharedReceiveQueue* FromAbi(ibv_srq* queue) {
  return reinterpret_cast<SharedReceiveQueue*>(queue);
}

int PostSend(ibv_qp* queue_pair, ibv_send_wr* first, ibv_send_wr** bad);
int PostReceive(ibv_qp* queue_pair, ibv_recv_wr* first, ibv_recv_wr** bad);
int PostSrqReceive(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** bad);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* wanted);
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* wanted);

}  // namespace nd::verbs_lib
