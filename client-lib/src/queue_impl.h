// SPDX-License-Identifier: Apache-2.0
// Completion queues and shared receive queues: local objects whose close waits for their queue pairs.
#pragma once

#include <atomic>
#include <memory>

#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/lifetime.h"
#include "nd/queue_pair.h"
#include "provider/qp.h"

namespace nd {
namespace client {

template <typename ProviderQueue>
class Queue : public Target, public std::enable_shared_from_this<Queue<ProviderQueue>> {
 public:
  Queue(std::shared_ptr<Adapter::Impl> owner, std::shared_ptr<ProviderQueue> queue)
      : adapter(std::move(owner)), real(LeakInChild(std::move(queue))) {}

  Rank rank() const override { return Rank::kQueue; }
  void BeginClose() override { static_cast<void>(Close(nullptr, false)); }
  void LastHandleGone() { BeginClose(); }

  bool usable() const { return !closed.load(std::memory_order_relaxed) && !adapter->session->in_child(); }

  // INVALID_HANDLE for the second call; otherwise completes with SUCCESS.
  Status Close(Request* request, bool wait = true) {
    auto begun = adapter->session->Begin(request);
    if (!begun.ok()) return begun.status();
    const std::shared_ptr<Request::State> state = *begun;
    const bool direct = request == nullptr && adapter->session->dispatcher().OnThread();
    const bool first = lifetime.Close([self = this->shared_from_this(), state, direct] {
      self->adapter->session->RemoveLive(self);
      if (direct) return self->adapter->session->Finish(state, {});
      self->adapter->session->FinishClose(state, {});
    });
    closed = true;
    if (!first) {
      state->Abort();
      return InvalidHandle("the queue");
    }
    return wait ? Session::Outcome(request, state) : Status(StatusCode::kPending);
  }

  const std::shared_ptr<Adapter::Impl> adapter;
  const std::shared_ptr<ProviderQueue> real;
  Lifetime lifetime;
  std::atomic<bool> closed{false};
};

}  // namespace client

struct CompletionQueue::Impl : client::Queue<provider::CompletionQueue> {
  using Queue::Queue;
};

struct SharedReceiveQueue::Impl : client::Queue<provider::SharedReceiveQueue> {
  using Queue::Queue;
};

}  // namespace nd
