// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/pending_calls_win.h"

namespace nd::spi {

PendingCalls::~PendingCalls() {
  std::map<Call*, std::shared_ptr<Call>> calls;
  {
    std::lock_guard lock(mutex_);
    calls.swap(calls_);
  }
  calls.clear();  // Waits for OnDone() on the library's thread, which takes the lock.
}

StatusCode PendingCalls::Answer(const Call& call, const Status& status) {
  return call.translate == nullptr ? status.code() : call.translate(status.code());
}

std::shared_ptr<PendingCalls::Call> PendingCalls::Remove(Call* call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return nullptr;
  auto removed = std::move(found->second);
  calls_.erase(found);
  return removed;
}

StatusCode PendingCalls::Start(OVERLAPPED* overlapped, const std::function<Status(Request*)>& call,
                               Translate translate) {
  if (overlapped == nullptr) return StatusCode::kInvalidParameter;
  auto made = std::make_shared<Call>();
  Call* const raw = made.get();
  raw->request = Request([this, raw](const Status& status) { OnDone(raw, status); });
  raw->translate = translate;
  {
    std::lock_guard lock(mutex_);
    calls_.emplace(raw, made);
  }
  const Status status = call(&raw->request);
  std::shared_ptr<Call> over;  // Destroyed without the lock: it waits for OnDone().
  if (!status.pending()) {
    std::lock_guard lock(mutex_);
    over = Remove(raw);
    return status.ok() ? requests_->Succeed(overlapped) : Answer(*raw, status);
  }
  std::lock_guard lock(mutex_);
  const StatusCode begun = requests_->Begin(overlapped, &raw->id);
  raw->begun = begun == StatusCode::kPending;
  if (raw->begun && raw->status) requests_->Finish(raw->id, *raw->status);
  if (!raw->begun || raw->status) over = Remove(raw);
  return begun;
}

void PendingCalls::OnDone(Call* call, const Status& status) {
  std::shared_ptr<Call> over;  // The last use of the Request is in its own callback.
  std::lock_guard lock(mutex_);
  if (!calls_.contains(call)) return;
  if (!call->begun) {
    call->status = Answer(*call, status);
    return;
  }
  requests_->Finish(call->id, Answer(*call, status));
  over = Remove(call);
}

void PendingCalls::TakeFinished() {
  std::lock_guard lock(mutex_);
  for (const auto& [raw, call] : calls_) {
    if (!call->begun) continue;
    const Status status = call->request.GetResult(false);
    if (!status.pending()) requests_->Finish(call->id, Answer(*call, status));
  }
}

}  // namespace nd::spi
