// SPDX-License-Identifier: Apache-2.0
// Handles of the queues of a provider. No call here needs the broker.
#include <algorithm>
#include <utility>

#include "client-lib/src/queue_impl.h"
#include "nd/queue_pair.h"

namespace nd {
namespace {

bool Usable(const std::shared_ptr<CompletionQueue::Impl>& impl) {
  return impl && impl->usable();
}

Time DeadlineAfter(std::chrono::nanoseconds timeout) {
  const Time now = std::chrono::steady_clock::now();
  return timeout > Time::max() - now ? Time::max() : now + timeout;
}

}  // namespace

CompletionQueue::CompletionQueue(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::size_t CompletionQueue::Poll(std::span<Completion> out) {
  return Usable(impl_) ? impl_->real->Poll(out) : 0;
}

Status CompletionQueue::Wait(std::chrono::nanoseconds timeout) {
  if (!Usable(impl_)) return client::InvalidHandle("the completion queue");
  return impl_->real->Wait(DeadlineAfter(timeout));
}

Result<Completion> CompletionQueue::Next(std::chrono::nanoseconds timeout) {
  const Time deadline = DeadlineAfter(timeout);
  Completion completion;
  for (;;) {
    if (!Usable(impl_)) return client::InvalidHandle("the completion queue");
    if (impl_->real->Poll(std::span(&completion, 1)) == 1) return completion;
    if (Status status = impl_->real->Wait(deadline); !status.ok()) return status;
  }
}

Status CompletionQueue::Notify(NotifyType type) {
  if (!Usable(impl_)) return client::InvalidHandle("the completion queue");
  return impl_->real->Notify(type);
}

int CompletionQueue::handle() const {
  return impl_ ? impl_->real->handle() : -1;
}

void CompletionQueue::ConsumeNotification() {
  if (Usable(impl_)) impl_->real->ConsumeNotification();
}

Status CompletionQueue::Resize(std::uint32_t depth) {
  if (!Usable(impl_)) return client::InvalidHandle("the completion queue");
  if (depth == 0 || depth > impl_->adapter->session->info().max_completion_queue_depth) {
    return {StatusCode::kInvalidParameter1,
            "a depth of " + std::to_string(depth) + "; allowed are 1 to " +
                std::to_string(impl_->adapter->session->info().max_completion_queue_depth)};
  }
  return impl_->real->Resize(depth);
}

Status CompletionQueue::state() const {
  return Usable(impl_) ? impl_->real->state() : client::InvalidHandle("the completion queue");
}

Status CompletionQueue::Close(Request* request) {
  return impl_ ? impl_->Close(request) : client::InvalidHandle("the completion queue");
}

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status SharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  if (!impl_ || !impl_->usable()) return client::InvalidHandle("the shared receive queue");
  return impl_->real->Receive(request_context, sges);
}

Status SharedReceiveQueue::Close(Request* request) {
  return impl_ ? impl_->Close(request) : client::InvalidHandle("the shared receive queue");
}

}  // namespace nd
