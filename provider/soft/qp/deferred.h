// SPDX-License-Identifier: Apache-2.0
// What a section under the lock of a queue pair leaves to be done without a lock. Most sections leave
// nothing, which costs one pointer.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::provider::soft {

class Deferred {
 public:
  struct Work {
    std::function<void(DisconnectReason, Status)> closed;
    DisconnectReason reason = DisconnectReason::kUnknown;
    Status cause;
    std::function<void(Status)> done;
    Status status;
    std::vector<std::function<void()>> calls;  // Limits of shared receive queues.
    // Windows and regions whose last owner may be a finished request; their destructors take locks.
    std::vector<std::shared_ptr<void>> released;
  };

  Work& work() {
    if (!work_) work_ = std::make_unique<Work>();
    return *work_;
  }
  explicit operator bool() const { return work_ != nullptr; }
  void Run() {
    if (!work_) return;
    if (work_->closed) work_->closed(work_->reason, std::move(work_->cause));
    if (work_->done) work_->done(std::move(work_->status));
    for (const auto& call : work_->calls) call();
  }

 private:
  std::unique_ptr<Work> work_;
};

}  // namespace nd::provider::soft
