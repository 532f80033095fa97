// SPDX-License-Identifier: Apache-2.0
// A shared receive queue; receives are taken oldest first.
//
// Thread rule: any thread. Its lock is taken under the lock of a queue pair.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "provider/qp.h"
#include "provider/soft/qp/deferred.h"
#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/sync.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

class SoftQueuePair;

class SoftSharedReceiveQueue final : public SharedReceiveQueue {
 public:
  SoftSharedReceiveQueue(std::shared_ptr<DeviceCore> core, std::uint32_t depth, std::uint32_t max_sge)
      : core_(std::move(core)), max_sge_(max_sge), ring_(depth) {}

  // NO_MORE_ENTRIES, DATA_OVERRUN, BUFFER_OVERFLOW.
  Status Receive(void* request_context, std::span<const Sge> sges) override;

  const std::shared_ptr<DeviceCore>& core() const { return core_; }
  Status SetLimit(std::uint32_t limit, std::function<void()> reached) override;
  Status Resize(std::uint32_t depth) override;
  // Returns false when no receive is posted. *deferred: gets the call that the limit asks for.
  bool Take(ReceiveRequest* request, Deferred* deferred);

  void AttachQueuePair(SoftQueuePair* queue_pair);
  void DetachQueuePair(SoftQueuePair* queue_pair);
  // A queue pair holds a Send until a receive is posted.
  void AddStarved() { starved_.fetch_add(1, std::memory_order_seq_cst); }
  void RemoveStarved() { starved_.fetch_sub(1, std::memory_order_seq_cst); }

 private:
  std::shared_ptr<DeviceCore> core_;
  std::uint32_t max_sge_;
  SpinLock lock_;
  WorkRing<ReceiveRequest> ring_;
  std::uint32_t limit_ = 0;
  std::function<void()> limit_reached_;
  std::atomic<std::uint32_t> starved_{0};
  SpinLock attach_lock_;
  std::vector<SoftQueuePair*> attached_;
};

}  // namespace nd::provider::soft
