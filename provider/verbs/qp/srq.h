// SPDX-License-Identifier: Apache-2.0
// A shared receive queue. Its receives complete in any order, so each has a numbered slot.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "provider/qp.h"
#include "provider/verbs/qp/context.h"
#include "provider/verbs/qp/spin_lock.h"

namespace nd::provider::verbs {

class VerbsSharedReceiveQueue final : public SharedReceiveQueue {
 public:
  static Result<std::shared_ptr<SharedReceiveQueue>> Create(const std::shared_ptr<Context>& context,
                                                            std::uint32_t depth, std::uint32_t max_sge);
  ~VerbsSharedReceiveQueue() override;
  Status Receive(void* request_context, std::span<const Sge> sges) override;

  const std::shared_ptr<Context>& context() const { return context_; }
  ibv_srq* srq() const { return srq_; }
  // Frees the receive with this wr_id and returns its context. Returns false when no receive has it.
  bool Finish(std::uint64_t wr_id, void** request_context);

 private:
  explicit VerbsSharedReceiveQueue(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  const std::shared_ptr<Context> context_;
  ibv_srq* srq_ = nullptr;
  std::uint32_t max_sge_ = 0;
  SpinLock lock_;
  struct Slot {
    void* context = nullptr;
    bool used = false;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace nd::provider::verbs
