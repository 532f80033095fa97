// SPDX-License-Identifier: Apache-2.0
// Completion queues and shared receive queues: objects of this process whose close waits for their queue
// pairs. Posting and polling go to `real` directly.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "client-lib/core/adapter.h"
#include "client-lib/core/lifetime.h"
#include "provider/qp.h"

namespace nd::client {

template <typename ProviderQueue>
class LocalQueue : public Target, public std::enable_shared_from_this<LocalQueue<ProviderQueue>> {
 public:
  LocalQueue(std::shared_ptr<LocalAdapter> owner, std::shared_ptr<ProviderQueue> queue)
      : adapter(std::move(owner)), real(LeakInChild(std::move(queue))) {}

  Rank rank() const override { return Rank::kQueue; }
  void BeginClose() override { static_cast<void>(Close({}, false)); }
  void LastHandleGone() { BeginClose(); }

  bool usable() const { return !closed_.load(std::memory_order_relaxed) && !adapter->session->in_child(); }

  // INVALID_HANDLE for the second call; otherwise completes with SUCCESS.
  Status Close(const Caller& caller, bool wait = true) {
    auto begun = adapter->session->Begin(caller);
    if (!begun.ok()) return begun.status();
    const std::shared_ptr<CallState> state = *begun;
    const bool direct = caller.blocks() && adapter->session->dispatcher().OnThread();
    const bool first = lifetime.Close([self = this->shared_from_this(), state, direct] {
      self->adapter->session->RemoveLive(self);
      if (direct) return self->adapter->session->Finish(state, {});
      self->adapter->session->FinishClose(state, {});
    });
    closed_ = true;
    if (!first) {
      state->Abort();
      return InvalidHandle("the queue");
    }
    return wait ? BrokerSession::Outcome(caller, state) : Status(StatusCode::kPending);
  }

  const std::shared_ptr<LocalAdapter> adapter;
  const std::shared_ptr<ProviderQueue> real;
  Lifetime lifetime;  // Its successors are queue pairs.

 private:
  std::atomic<bool> closed_{false};
};

struct LocalCompletionQueue final : LocalQueue<provider::CompletionQueue> {
  static constexpr char kWhat[] = "the completion queue";
  using LocalQueue::LocalQueue;

  Status Wait(std::chrono::nanoseconds timeout);
  Result<Completion> Next(std::chrono::nanoseconds timeout);
  Status Resize(std::uint32_t depth);
};

struct LocalSharedReceiveQueue final : LocalQueue<provider::SharedReceiveQueue> {
  static constexpr char kWhat[] = "the shared receive queue";
  using LocalQueue::LocalQueue;

  Status Resize(std::uint32_t depth);
};

}  // namespace nd::client
