// SPDX-License-Identifier: Apache-2.0
// The functions of ibv_qp_ex (ibv_wr_start to ibv_wr_complete).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <mutex>

#include "verbs-lib/send_batch.h"

namespace nd::verbs_lib {

struct QueuePair;

// Of a queue pair that was created with send_ops_flags.
struct ExtendedPosts {
  explicit ExtendedPosts(SendBatch::Limits limits) : batch(limits) {}

  std::mutex mutex;  // Locked from wr_start to wr_complete or wr_abort.
  SendBatch batch;
};

// The operations (ibv_qp_create_send_ops_flags) that queue pairs of this type have.
std::uint64_t SendOpsOf(ibv_qp_type type);
// Sets the functions for `operations`.
void OfferExtendedPosts(QueuePair* queue_pair, std::uint64_t operations);

}  // namespace nd::verbs_lib
