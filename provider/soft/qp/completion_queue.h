// SPDX-License-Identifier: Apache-2.0
// Finished work of any number of queue pairs in one bounded ring.
//
// Thread rule: any thread. Lock order: the queue pairs (DrivenSet), then the ring.
#pragma once

#include <atomic>
#include <memory>

#include "base/unique_fd.h"
#include "provider/qp.h"
#include "provider/soft/qp/driven_set.h"
#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {

class SoftCompletionQueue final : public CompletionQueue {
 public:
  static Result<std::shared_ptr<SoftCompletionQueue>> Create(std::shared_ptr<DeviceCore> core,
                                                             std::uint32_t depth);
  ~SoftCompletionQueue() override;

  std::size_t Poll(std::span<Completion> out) override;
  Status Notify(NotifyType type) override;
  int handle() const override;
  void ConsumeNotification() override;
  Status Wait(Time deadline) override;
  Status Resize(std::uint32_t depth) override;
  Status state() const override;

  const std::shared_ptr<DeviceCore>& core() const { return core_; }

  // From queue pairs, under their lock. Lost when the ring is full.
  void Push(const Completion& completion, bool solicited);
  DrivenSet& driven() { return driven_; }
  // A queue pair got its transport: sleepers must watch its descriptor too.
  void TransportChanged(int fd);
  // From the progress thread, about a queue pair that was polled since its last visit: serve it, since Notify
  // says that the application is about to sleep? If not, the thread puts it off, and the next Notify calls
  // it.
  bool AboutToSleep(std::uint32_t number);

 private:
  explicit SoftCompletionQueue(std::shared_ptr<DeviceCore> core)
      : core_(std::move(core)), driven_(core_->progress_thread) {}
  std::size_t Pop(std::span<Completion> out);
  bool Drive(bool look_at_fds);
  bool TakeLook();

  std::shared_ptr<DeviceCore> core_;
  DrivenSet driven_;
  UniqueFd notify_fd_, wait_fd_, epoll_fd_;  // epoll_fd_: only without a progress thread.

  mutable SpinLock lock_;
  Completion* ring_ = nullptr;
  std::uint32_t depth_ = 0, slots_ = 0;
  std::uint64_t head_ = 0, tail_ = 0;
  std::atomic<std::uint64_t> count_{0};
  bool lost_ = false;
  bool armed_ = false;
  NotifyType armed_type_ = NotifyType::kErrors;
  std::atomic<std::uint32_t> waiters_{0};
  // After Notify, until it fires: for how many more polls the application still counts as about to sleep.
  std::atomic<std::uint32_t> looks_before_sleep_{0};
};

}  // namespace nd::provider::soft
