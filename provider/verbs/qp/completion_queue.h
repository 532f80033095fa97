// SPDX-License-Identifier: Apache-2.0
// The completion queue of a device with the additions of Network Direct: contexts instead of numbers, silent
// success, a handle that also fires for completions that are present already, and completions that a flush
// makes in software.
//
// A device can be armed for every completion or for solicited and failed ones. ERRORS is therefore armed as
// SOLICITED, so a solicited completion may wake a handle that was armed for errors only.
//
// Thread rule: any thread. Lock order: this queue, then nothing.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "provider/qp.h"
#include "provider/verbs/qp/context.h"
#include "provider/verbs/qp/spin_lock.h"

namespace nd::provider::verbs {

class VerbsQueuePair;

class VerbsCompletionQueue final : public CompletionQueue {
 public:
  static Result<std::shared_ptr<CompletionQueue>> Create(const std::shared_ptr<Context>& context,
                                                         std::uint32_t depth);
  ~VerbsCompletionQueue() override;

  std::size_t Poll(std::span<Completion> out) override;
  Status Notify(NotifyType type) override;
  int handle() const override { return epoll_.get(); }
  bool ConsumeNotification() override;
  Status Wait(Time deadline) override;
  Status Resize(std::uint32_t depth) override;
  Status state() const override;

  const std::shared_ptr<Context>& context() const { return context_; }
  ibv_cq* cq() const { return cq_; }

  // From queue pairs.
  void Attach(std::uint32_t number, VerbsQueuePair* queue_pair);
  void Detach(std::uint32_t number);
  // Takes every completion from the device, so that the queue pairs see them.
  void Collect();
  // A completion made in software.
  void Push(const Completion& completion);
  // Records that the device lost completions. Any thread.
  void MarkLost() { lost_.store(true, std::memory_order_relaxed); }

 private:
  struct PeerLoss {
    std::weak_ptr<VerbsQueuePair> queue_pair;
    ibv_wc_status status;
  };
  explicit VerbsCompletionQueue(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  // Requires the lock. Returns how many of `room` entries were filled; *more: the device may have further
  // ones.
  std::size_t PollDevice(Completion* out, std::size_t room, bool* more, std::vector<PeerLoss>* losses);
  bool CollectLocked(std::vector<PeerLoss>* losses);
  void Fire();
  void DrainChannel();
  static void Tell(const std::vector<PeerLoss>& losses);

  const std::shared_ptr<Context> context_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  UniqueFd fired_, epoll_;
  std::uint32_t depth_ = 0;
  std::atomic<bool> lost_{false};

  SpinLock lock_;
  std::unordered_map<std::uint32_t, VerbsQueuePair*> queue_pairs_;
  std::deque<Completion> ready_;  // Collected, not yet polled.
  bool armed_ = false;
  NotifyType armed_type_ = NotifyType::kErrors;
  std::uint32_t empty_polls_ = 0;
};

}  // namespace nd::provider::verbs
