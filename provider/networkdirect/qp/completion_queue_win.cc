// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/qp/completion_queue_win.h"

#include <algorithm>
#include <array>
#include <utility>

namespace nd::provider::networkdirect {
namespace {

constexpr std::size_t kBatch = 32;

int RankOf(NotifyType type) {
  return type == NotifyType::kAny ? 2 : type == NotifyType::kSolicited ? 1 : 0;
}

void Count(const Completion& completion, QpCounters* counters) {
  if (counters == nullptr) return;
  if (completion.status != StatusCode::kSuccess) {
    if (completion.status != StatusCode::kCanceled) QpCounters::Add(counters->errors, 1);
  } else if (completion.type == RequestType::kReceive) {
    QpCounters::Add(counters->rx_sends, 1);
    QpCounters::Add(counters->rx_bytes, completion.bytes_transferred);
  }
}

}  // namespace

Result<std::shared_ptr<CompletionQueue>> NdCompletionQueue::Make(const std::shared_ptr<Context>& context,
                                                                 std::uint32_t depth) {
  if (depth == 0 || depth > context->info.max_completion_queue_depth) {
    return Status{StatusCode::kInvalidParameter1, "the depth is 0 or above max_completion_queue_depth"};
  }
  Com<spi::IND2CompletionQueue> queue;
  const HRESULT hr = context->adapter->CreateCompletionQueue(spi::kIid<spi::IND2CompletionQueue>,
                                                             context->file, depth, 0, 0, queue.out());
  if (Status status = StatusOf(hr, "CreateCompletionQueue"); !status.ok()) return status;
  auto made = std::make_shared<NdCompletionQueue>(context, std::move(queue));
  if (!made->fired_) return Status{StatusCode::kInsufficientResources, "no event for the completion queue"};
  return std::shared_ptr<CompletionQueue>(std::move(made));
}

NdCompletionQueue::~NdCompletionQueue() {
  queue_->CancelOverlappedRequests();
}

void NdCompletionQueue::Attach(std::uint32_t number, void* context, QpCounters* counters) {
  std::lock_guard lock(mutex_);
  owners_[number] = {context, counters};
}

void NdCompletionQueue::Detach(std::uint32_t number) {
  std::lock_guard lock(mutex_);
  owners_.erase(number);
}

// Under the mutex.
std::size_t NdCompletionQueue::Take(std::span<Completion> out) {
  std::array<spi::RequestResult, kBatch> results;
  std::size_t filled = 0;
  while (filled < out.size()) {
    const auto room = static_cast<ULONG>(std::min(out.size() - filled, kBatch));
    const ULONG got = queue_->GetResults(results.data(), room);
    for (ULONG i = 0; i < got && i < room; ++i) {
      const spi::RequestResult& result = results[i];
      const auto number =
          static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(result.queue_pair_context));
      const auto owner = owners_.find(number);
      if (owner == owners_.end()) continue;  // The queue pair was destroyed.
      Completion& completion = out[filled++];
      completion = {};
      completion.status = CodeOf(result.status);
      completion.bytes_transferred = result.bytes_transferred;
      completion.queue_pair_context = owner->second.context;
      completion.request_context = result.request_context;
      completion.type = static_cast<RequestType>(result.request_type);
      Count(completion, owner->second.counters);
    }
    if (got < room) break;
  }
  return filled;
}

std::size_t NdCompletionQueue::Poll(std::span<Completion> out) {
  std::lock_guard lock(mutex_);
  std::size_t filled = 0;
  for (; filled < out.size() && !ready_.empty(); ready_.pop_front()) out[filled++] = ready_.front();
  return filled + Take(out.subspan(filled));
}

// Under the mutex.
void NdCompletionQueue::Collect() {
  std::array<Completion, kBatch> batch;
  for (std::size_t got = batch.size(); got == batch.size();) {
    got = Take(batch);
    ready_.insert(ready_.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(got));
  }
}

Status NdCompletionQueue::Notify(NotifyType type) {
  {
    std::lock_guard lock(mutex_);
    if (!lost_.ok()) return lost_;
    if (!armed_ || RankOf(type) > RankOf(armed_type_)) armed_type_ = type;
    armed_ = true;
  }
  context_->engine->Post([weak = weak_from_this(), type] {
    if (const auto self = weak.lock()) self->Arm(type);
  });
  return {};
}

void NdCompletionQueue::Arm(NotifyType type) {
  bool covered = false;
  {
    std::lock_guard lock(mutex_);
    for (int rank = RankOf(type); rank <= 2; ++rank) covered |= outstanding_[rank];
    if (!covered) outstanding_[RankOf(type)] = true;
  }
  if (!covered) {
    context_->engine->Call(
        Com<spi::IND2Overlapped>::To(queue_.get()),
        [&](OVERLAPPED* overlapped) { return queue_->Notify(static_cast<ULONG>(type), overlapped); },
        [weak = weak_from_this(), type](HRESULT hr) {
          if (const auto self = weak.lock()) self->Notified(type, hr);
        });
  }
  // Completions that came before the call.
  std::function<void()> callback;
  bool fires = false;
  {
    std::lock_guard lock(mutex_);
    Collect();
    fires = armed_ && armed_type_ == NotifyType::kAny && !ready_.empty();
    if (fires) armed_ = false;
    if (!ready_.empty()) changed_.notify_all();
    callback = callback_;
  }
  if (!fires) return;
  callback ? callback() : fired_.Set();
}

void NdCompletionQueue::Notified(NotifyType type, HRESULT hr) {
  std::function<void()> callback;
  bool fires = false, again = false;
  NotifyType wanted;
  {
    std::lock_guard lock(mutex_);
    outstanding_[RankOf(type)] = false;
    const StatusCode code = CodeOf(hr);
    if (code != StatusCode::kSuccess && code != StatusCode::kCanceled) lost_ = StatusOf(hr, "Notify");
    Collect();
    wanted = armed_type_;
    // Armed for more than was asked for, by an earlier call or a thread in Wait().
    const bool more = armed_ && wanted == NotifyType::kErrors && type != NotifyType::kErrors && lost_.ok();
    const auto failed = [](const Completion& done) { return done.status != StatusCode::kSuccess; };
    again = more && std::ranges::none_of(ready_, failed);
    fires = armed_ && !again;
    if (fires) armed_ = false;
    changed_.notify_all();
    callback = callback_;
  }
  if (again) Arm(wanted);
  if (fires) callback ? callback() : fired_.Set();
}

Status NdCompletionQueue::SetNotification(std::function<void()> fired) {
  std::lock_guard lock(mutex_);
  callback_ = std::move(fired);
  return {};
}

Status NdCompletionQueue::Wait(Time deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Collect();
    if (!ready_.empty()) return {};
    if (!lost_.ok()) return lost_;
    if (std::chrono::steady_clock::now() >= deadline)
      return {StatusCode::kIoTimeout, "nothing completed in time"};
    lock.unlock();
    context_->engine->Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Arm(NotifyType::kAny);
    });
    lock.lock();
    if (deadline == Time::max()) {
      changed_.wait(lock, [this] { return !ready_.empty() || !lost_.ok(); });
    } else {
      changed_.wait_until(lock, deadline, [this] { return !ready_.empty() || !lost_.ok(); });
    }
  }
}

Status NdCompletionQueue::Resize(std::uint32_t depth) {
  if (depth == 0 || depth > context_->info.max_completion_queue_depth) {
    return {StatusCode::kInvalidParameter, "the depth is 0 or above max_completion_queue_depth"};
  }
  return StatusOf(queue_->Resize(depth), "Resize");
}

Status NdCompletionQueue::state() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace nd::provider::networkdirect
