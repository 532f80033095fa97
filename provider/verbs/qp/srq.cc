// SPDX-License-Identifier: Apache-2.0
// Returns each receive of a shared queue to its context, whichever queue pair took it.
#include "provider/verbs/qp/srq.h"

#include <cerrno>
#include <mutex>

#include "provider/queue_pair_rules.h"
#include "provider/verbs/device_limits.h"
#include "provider/verbs/qp/queue_pair.h"
#include "provider/verbs/qp/work_completion.h"

namespace nd::provider::verbs {

Result<std::shared_ptr<SharedReceiveQueue>> VerbsSharedReceiveQueue::Create(
    const std::shared_ptr<Context>& context, std::uint32_t depth, std::uint32_t max_sge) {
  const AdapterInfo& info = context->info;
  if (info.max_shared_receive_queue_depth == 0) {
    return Status{StatusCode::kNotSupported, info.name + " has no shared receive queues"};
  }
  if (Status bad = CheckSharedQueue(depth, max_sge, info); !bad.ok()) return bad;
  std::shared_ptr<VerbsSharedReceiveQueue> queue(new VerbsSharedReceiveQueue(context));
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = depth;
  attr.attr.max_sge = max_sge == 0 ? 1 : max_sge;
  errno = 0;
  queue->srq_ = ibv_create_srq(context->pd, &attr);
  if (queue->srq_ == nullptr) return OpenFailure(info.name, errno);
  queue->max_sge_ = max_sge;
  queue->slots_.resize(depth);
  for (std::uint32_t i = depth; i-- > 0;) queue->free_.push_back(i);
  return std::shared_ptr<SharedReceiveQueue>(queue);
}

VerbsSharedReceiveQueue::~VerbsSharedReceiveQueue() {
  if (srq_ != nullptr && !context_->forked()) ibv_destroy_srq(srq_);
}

Status VerbsSharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  if (context_->forked()) return InParent();
  SgeList list;
  if (Status status = list.Fill(sges, max_sge_, context_->info.max_transfer_length); !status.ok())
    return status;
  std::lock_guard guard(lock_);
  if (free_.empty()) return SharedReceiveQueueFull();
  const std::uint32_t index = free_.back();
  ibv_recv_wr request{};
  request.wr_id = index;
  request.sg_list = list.sges;
  request.num_sge = list.count;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_srq_recv(srq_, &request, &bad); error != 0) return FromPost(error);
  free_.pop_back();
  slots_[index] = {request_context, true};
  return {};
}

bool VerbsSharedReceiveQueue::Finish(std::uint64_t wr_id, void** request_context) {
  std::lock_guard guard(lock_);
  if (wr_id >= slots_.size() || !slots_[wr_id].used) return false;
  *request_context = slots_[wr_id].context;
  slots_[wr_id].used = false;
  free_.push_back(static_cast<std::uint32_t>(wr_id));
  return true;
}

}  // namespace nd::provider::verbs
