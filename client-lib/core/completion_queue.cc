// SPDX-License-Identifier: Apache-2.0
// Waiting, and checks that no provider makes. No call here needs the broker.
#include <span>
#include <string>

#include "client-lib/core/queues.h"

namespace nd::client {
namespace {

Time DeadlineAfter(std::chrono::nanoseconds timeout) {
  const Time now = std::chrono::steady_clock::now();
  return timeout > Time::max() - now ? Time::max() : now + timeout;
}

Status CheckDepth(std::uint32_t depth, std::uint32_t max) {
  if (depth != 0 && depth <= max) return {};
  return {StatusCode::kInvalidParameter1,
          "a depth of " + std::to_string(depth) + "; allowed are 1 to " + std::to_string(max)};
}

}  // namespace

Status LocalCompletionQueue::Wait(std::chrono::nanoseconds timeout) {
  return real->Wait(DeadlineAfter(timeout));
}

Result<Completion> LocalCompletionQueue::Next(std::chrono::nanoseconds timeout) {
  const Time deadline = DeadlineAfter(timeout);
  Completion completion;
  for (;;) {
    if (!usable()) return InvalidHandle(kWhat);
    if (real->Poll(std::span(&completion, 1)) == 1) return completion;
    if (Status status = real->Wait(deadline); !status.ok()) return status;
  }
}

Status LocalCompletionQueue::Resize(std::uint32_t depth) {
  Status allowed = CheckDepth(depth, adapter->session->info().max_completion_queue_depth);
  return allowed.ok() ? real->Resize(depth) : allowed;
}

Status LocalSharedReceiveQueue::Resize(std::uint32_t depth) {
  Status allowed = CheckDepth(depth, adapter->session->info().max_shared_receive_queue_depth);
  return allowed.ok() ? real->Resize(depth) : allowed;
}

}  // namespace nd::client
