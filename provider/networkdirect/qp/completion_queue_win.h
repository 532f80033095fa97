// SPDX-License-Identifier: Apache-2.0
// The completion queue of an adapter, with the additions of provider/qp.h: a handle, a callback, a wait, and
// a notification that also fires for completions that are there already.
//
// A queue of Network Direct is armed by an OVERLAPPED call, which the engine makes. It may be armed for more
// than the application asked for; then a notification may come that has nothing to tell. Thread rule: any
// thread. The mutex of the queue is locked last.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/os/wake_event.h"
#include "provider/networkdirect/qp/context_win.h"
#include "provider/qp.h"

namespace nd::provider::networkdirect {

class NdCompletionQueue final : public CompletionQueue,
                                public std::enable_shared_from_this<NdCompletionQueue> {
 public:
  static Result<std::shared_ptr<CompletionQueue>> Make(const std::shared_ptr<Context>& context,
                                                       std::uint32_t depth);
  NdCompletionQueue(std::shared_ptr<Context> context, Com<spi::IND2CompletionQueue> queue)
      : context_(std::move(context)), queue_(std::move(queue)) {}
  ~NdCompletionQueue() override;

  std::size_t Poll(std::span<Completion> out) override;
  Status Notify(NotifyType type) override;
  int handle() const override { return fired_.handle(); }
  bool ConsumeNotification() override {
    fired_.Clear();
    return true;
  }
  Status SetNotification(std::function<void()> fired) override;
  Status Wait(Time deadline) override;
  Status Resize(std::uint32_t depth) override;
  Status state() const override;

  const std::shared_ptr<Context>& context() const { return context_; }
  spi::IND2CompletionQueue* queue() const { return queue_.get(); }
  // A queue pair whose context in the adapter is `number`.
  void Attach(std::uint32_t number, void* context, QpCounters* counters);
  void Detach(std::uint32_t number);

 private:
  struct Owner {
    void* context = nullptr;
    QpCounters* counters = nullptr;
  };
  std::size_t Take(std::span<Completion> out);
  void Arm(NotifyType type);  // On the engine.
  void Notified(NotifyType type, HRESULT hr);
  void Collect();

  const std::shared_ptr<Context> context_;
  const Com<spi::IND2CompletionQueue> queue_;
  const os::WakeEvent fired_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> callback_;
  std::unordered_map<std::uint32_t, Owner> owners_;
  std::deque<Completion> ready_;  // Collected, and not polled.
  bool armed_ = false;            // By the application.
  NotifyType armed_type_ = NotifyType::kErrors;
  bool outstanding_[3] = {};  // Calls of Notify, by type.
  Status lost_;
};

}  // namespace nd::provider::networkdirect
