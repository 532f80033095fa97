// SPDX-License-Identifier: Apache-2.0
// Delivers exactly one completion per call, in one of three ways, whatever the application destroys in the
// meantime.
#include "client-lib/core/call_state.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace nd::client {

void CompletionPort::Push(std::shared_ptr<CallState> state) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(state));
  if (waiting_.size() == 1) event_.Set();
}

void CompletionPort::Remove(const CallState* state) {
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                               [state](const auto& item) { return item.get() == state; });
  if (it == waiting_.end()) return;
  waiting_.erase(it);
  if (waiting_.empty()) event_.Clear();
}

void* CompletionPort::Pop() {
  for (;;) {
    std::shared_ptr<CallState> state;
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) return nullptr;
      state = std::move(waiting_.front());
      waiting_.pop_front();
      if (waiting_.empty()) event_.Clear();
    }
    if (void* owner = state->owner()) return owner;
  }
}

bool CallState::Start(const std::shared_ptr<CompletionPort>& port) {
  std::shared_ptr<CompletionPort> former;
  {
    std::lock_guard lock(mutex_);
    if (pending_) return false;
    pending_ = true;
    former = std::exchange(port_, port);
  }
  // The state is used again before its last completion was taken; that completion is not reported.
  if (former) former->Remove(this);
  return true;
}

void CallState::Abort() {
  std::lock_guard lock(mutex_);
  pending_ = false;
}

void CallState::Finish(Status status, Dispatcher& dispatcher) {
  std::shared_ptr<CompletionPort> port;
  std::uint32_t wake;
  bool call = false;
  {
    std::lock_guard lock(mutex_);
    result_ = std::move(status);
    pending_ = false;
    wake = std::exchange(waiting_, 0);
    ever_ = true;
    if (!abandoned_) {
      call = callback_ != nullptr;
      if (!call && owner_ != nullptr) port = port_;
    }
  }
  // Without the lock, which the woken thread needs first. The caller keeps this object alive.
  for (; wake != 0; --wake) finished_.Post();
  if (call) dispatcher.Post([self = shared_from_this()] { self->RunCallback(); });
  if (port) port->Push(shared_from_this());
}

void CallState::RunCallback() {
  Status status;
  {
    std::lock_guard lock(mutex_);
    if (abandoned_) return;
    ++running_;
    runner_ = std::this_thread::get_id();
    status = result_;
  }
  callback_(status);
  std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

Status CallState::GetResult(bool wait) {
  std::unique_lock lock(mutex_);
  if (!pending_ && !ever_) {
    return {StatusCode::kConnectionInvalid, "no operation was started with this Request"};
  }
  if (!wait) return pending_ ? Status(StatusCode::kPending) : result_;
  while (pending_) {
    ++waiting_;
    lock.unlock();
    finished_.Wait();
    lock.lock();
  }
  return result_;
}

bool CallState::WaitUntil(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  while (pending_) {
    ++waiting_;
    lock.unlock();
    const bool finished = finished_.WaitUntil(deadline);
    lock.lock();
    if (finished) continue;
    // When the call has ended meanwhile, the unit of this thread is left to the next one, which looks again.
    if (waiting_ != 0) --waiting_;
    break;
  }
  return !pending_;
}

void CallState::SetOwner(void* owner) {
  std::lock_guard lock(mutex_);
  owner_ = owner;
}

void* CallState::owner() {
  std::lock_guard lock(mutex_);
  return owner_;
}

void CallState::Abandon() {
  std::shared_ptr<CompletionPort> port;
  {
    std::unique_lock lock(mutex_);
    abandoned_ = true;
    owner_ = nullptr;
    port = std::move(port_);
    if (runner_ != std::this_thread::get_id()) changed_.wait(lock, [this] { return running_ == 0; });
  }
  if (port) port->Remove(this);
}

}  // namespace nd::client
