// SPDX-License-Identifier: Apache-2.0
// The public classes of queues.
#include <utility>

#include "client-lib/src/face.h"
#include "nd/queue_pair.h"

namespace nd {

using client::CallerOf;
using client::Core;
using client::LocalCompletionQueue;
using client::LocalSharedReceiveQueue;
using client::Use;
using client::UseAny;

CompletionQueue::CompletionQueue(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::size_t CompletionQueue::Poll(std::span<Completion> out) {
  return client::Valid(Core(impl_)) ? Core(impl_)->real->Poll(out) : 0;
}

Status CompletionQueue::Wait(std::chrono::nanoseconds timeout) {
  return Use(Core(impl_), [&](LocalCompletionQueue& queue) { return queue.Wait(timeout); });
}

Result<Completion> CompletionQueue::Next(std::chrono::nanoseconds timeout) {
  return Use(Core(impl_), [&](LocalCompletionQueue& queue) { return queue.Next(timeout); });
}

Status CompletionQueue::Notify(NotifyType type) {
  return Use(Core(impl_), [&](LocalCompletionQueue& queue) { return queue.real->Notify(type); });
}

int CompletionQueue::handle() const {
  return impl_ ? Core(impl_)->real->handle() : -1;
}

bool CompletionQueue::ConsumeNotification() {
  return client::Valid(Core(impl_)) && Core(impl_)->real->ConsumeNotification();
}

Status CompletionQueue::SetNotification(std::function<void()> fired) {
  return Use(Core(impl_),
             [&](LocalCompletionQueue& queue) { return queue.real->SetNotification(std::move(fired)); });
}

Status CompletionQueue::Resize(std::uint32_t depth) {
  return Use(Core(impl_), [&](LocalCompletionQueue& queue) { return queue.Resize(depth); });
}

Status CompletionQueue::state() const {
  return Use(Core(impl_), [](LocalCompletionQueue& queue) { return queue.real->state(); });
}

Status CompletionQueue::Close(Request* request) {
  return UseAny(Core(impl_), [&](LocalCompletionQueue& queue) { return queue.Close(CallerOf(request)); });
}

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status SharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  return Use(Core(impl_),
             [&](LocalSharedReceiveQueue& queue) { return queue.real->Receive(request_context, sges); });
}

Status SharedReceiveQueue::SetLimit(std::uint32_t limit, std::function<void()> reached) {
  return Use(Core(impl_),
             [&](LocalSharedReceiveQueue& queue) { return queue.real->SetLimit(limit, std::move(reached)); });
}

Status SharedReceiveQueue::Resize(std::uint32_t depth) {
  return Use(Core(impl_), [&](LocalSharedReceiveQueue& queue) { return queue.Resize(depth); });
}

Status SharedReceiveQueue::Close(Request* request) {
  return UseAny(Core(impl_), [&](LocalSharedReceiveQueue& queue) { return queue.Close(CallerOf(request)); });
}

}  // namespace nd
