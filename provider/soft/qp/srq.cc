// SPDX-License-Identifier: Apache-2.0
// A shared receive queue: a ring that wakes starved queue pairs.
#include "provider/soft/qp/srq.h"

#include <algorithm>
#include <utility>

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

Status SoftSharedReceiveQueue::SetLimit(std::uint32_t limit, std::function<void()> reached) {
  if (core_->forked()) return InParent();
  if (limit != 0 && !reached) return {StatusCode::kInvalidParameter2, "a limit that nobody is told of"};
  SpinGuard guard(lock_);
  limit_ = limit;
  limit_reached_.swap(reached);  // The former one is destroyed without the lock.
  return Status::Ok();
}

Status SoftSharedReceiveQueue::Resize(std::uint32_t depth) {
  if (core_->forked()) return InParent();
  if (depth == 0 || depth > core_->info.max_shared_receive_queue_depth) {
    return {StatusCode::kInvalidParameter1, "a queue holds 1 to max_shared_receive_queue_depth receives"};
  }
  WorkRing<ReceiveRequest> ring(depth);
  SpinGuard guard(lock_);
  if (ring_.head - ring_.tail > depth) {
    return {StatusCode::kBufferOverflow, "more receives are posted than the new depth holds"};
  }
  for (std::uint64_t i = ring_.tail; i != ring_.head; ++i) ring.at(ring.head++) = ring_.at(i);
  std::swap(ring_, ring);  // The former one is destroyed without the lock.
  return Status::Ok();
}

bool SoftSharedReceiveQueue::Take(ReceiveRequest* request, Deferred* deferred) {
  SpinGuard guard(lock_);
  const bool has_one = !ring_.empty();
  if (has_one) {
    const ReceiveRequest& oldest = ring_.at(ring_.tail);
    request->context = oldest.context;
    request->list.Assign({oldest.list.sges.data(), oldest.list.count}, oldest.list.length);
    ++ring_.tail;
  }
  if (limit_ != 0 && ring_.head - ring_.tail < limit_) {
    limit_ = 0;
    deferred->work().calls.push_back(std::exchange(limit_reached_, nullptr));
  }
  return has_one;
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
