// SPDX-License-Identifier: Apache-2.0
// A shared receive queue: a ring that wakes starved queue pairs.
#include "provider/soft/qp/srq.h"

#include <algorithm>

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {

Status SoftSharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  if (core_->forked()) return InParent();
  std::uint32_t length = 0;
  if (Status status = CheckSges(sges, max_sge_, core_->info.max_transfer_length, &length); !status.ok()) {
    return status;
  }
  {
    SpinGuard guard(lock_);
    if (ring_.full()) return SharedReceiveQueueFull();
    ReceiveRequest& request = ring_.at(ring_.head);
    request.context = request_context;
    request.list.Assign(sges, length);
    ++ring_.head;
  }
  if (starved_.load(std::memory_order_seq_cst) == 0) return Status::Ok();
  std::vector<Deferred> deferred;
  {
    SpinGuard guard(attach_lock_);
    for (SoftQueuePair* queue_pair : attached_) {
      Deferred later;
      if (queue_pair->starved()) queue_pair->DriveBlocking(&later);
      if (later) deferred.push_back(std::move(later));
    }
  }
  for (Deferred& later : deferred) later.Run();
  return Status::Ok();
}

bool SoftSharedReceiveQueue::Take(ReceiveRequest* request) {
  SpinGuard guard(lock_);
  if (ring_.empty()) return false;
  const ReceiveRequest& oldest = ring_.at(ring_.tail);
  request->context = oldest.context;
  request->list.Assign({oldest.list.sges.data(), oldest.list.count}, oldest.list.length);
  ++ring_.tail;
  return true;
}

void SoftSharedReceiveQueue::AttachQueuePair(SoftQueuePair* queue_pair) {
  SpinGuard guard(attach_lock_);
  attached_.push_back(queue_pair);
}

void SoftSharedReceiveQueue::DetachQueuePair(SoftQueuePair* queue_pair) {
  SpinGuard guard(attach_lock_);
  std::erase(attached_, queue_pair);
}

}  // namespace nd::provider::soft
