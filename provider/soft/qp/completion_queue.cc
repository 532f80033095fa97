// SPDX-License-Identifier: Apache-2.0
// Polling moves data. Wait sleeps on the transports themselves, so one wake-up leads from the peer to the
// application.
#include "provider/soft/qp/completion_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

// The rounds of one call that tries to finish all work before the application sleeps on handle().
constexpr int kRoundsBeforeSleep = 16;
// The rounds of one poll that move data and give it no completion.
constexpr int kRoundsWithoutCompletion = 8;
// The application waits for the watch set as a whole, so descriptors need no tags of their own.
constexpr std::uint64_t kNoTag = 0;

Status NoDescriptor(const char* what) {
  return {StatusCode::kInsufficientResources, std::string(what) + ": " + std::strerror(errno),
          Detail::kTransport, errno};
}

Completion* NewRing(std::uint32_t slots) {
  // Uninitialised on purpose: a deep queue that stays empty costs no memory.
  return static_cast<Completion*>(::operator new(sizeof(Completion) * slots, std::nothrow));
}

std::uint32_t PowerOfTwo(std::uint32_t at_least) {
  std::uint32_t slots = 1;
  while (slots < at_least) slots *= 2;
  return slots;
}

}  // namespace

Result<std::shared_ptr<SoftCompletionQueue>> SoftCompletionQueue::Create(std::shared_ptr<DeviceCore> core,
                                                                         std::uint32_t depth) {
  if (depth == 0 || depth > core->info.max_completion_queue_depth) {
    return Status(StatusCode::kInvalidParameter, "a completion queue holds 1 to max_completion_queue_depth");
  }
  std::shared_ptr<SoftCompletionQueue> queue(new SoftCompletionQueue(std::move(core)));
  if (!queue->notify_ || !queue->wait_) return NoDescriptor("no event for the completion queue");
  if (!queue->core_->progress_thread) {
    queue->watch_.emplace();
    if (!*queue->watch_ ||
        !queue->watch_->Add(queue->notify_.handle(), os::kReadable, kNoTag, os::WatchSet::Until::kRemoved)) {
      return NoDescriptor("no watch set for the completion queue");
    }
  }
  queue->depth_ = depth;
  queue->slots_ = PowerOfTwo(depth);
  queue->ring_ = NewRing(queue->slots_);
  if (queue->ring_ == nullptr) return Status(StatusCode::kNoMemory, "no memory for the completion queue");
  return queue;
}

SoftCompletionQueue::~SoftCompletionQueue() {
  ::operator delete(ring_);
}

int SoftCompletionQueue::handle() const {
  return watch_ ? watch_->handle() : notify_.handle();
}

std::size_t SoftCompletionQueue::Take(std::span<Completion> out) {
  BiasedGuard guard(lock_);
  const std::size_t n = std::min<std::size_t>(out.size(), head_ - tail_);
  for (std::size_t i = 0; i < n; ++i) out[i] = ring_[(tail_ + i) & (slots_ - 1)];
  tail_ += n;
  count_.store(head_ - tail_, std::memory_order_relaxed);
  return n;
}

std::size_t SoftCompletionQueue::Poll(std::span<Completion> out) {
  if (core_->forked()) return 0;
  if (count_.load(std::memory_order_acquire) != 0) return Take(out);
  LentSpan lent{this, out.data(), out.data() + out.size()};
  // A round that moves data ends the poll of the set, and may give no completion here.
  for (int i = 0; i < kRoundsWithoutCompletion; ++i) {
    const bool moved = poll_set_.Poll(&lent);
    if (lent.next != out.data()) return static_cast<std::size_t>(lent.next - out.data());
    if (count_.load(std::memory_order_acquire) != 0) return Take(out);
    if (!moved) return 0;
  }
  return 0;
}

void SoftCompletionQueue::PushAndTell(const Completion& completion, bool solicited) {
  // A thread that starts to wait after this sees the completion, because both happen under this lock.
  const bool wake = waiters_.load(std::memory_order_relaxed) != 0;
  bool fire = false;
  if (head_ - tail_ >= depth_ || lost_) {
    lost_ = true;
  } else {
    Append(completion);
  }
  if (armed_) {
    const bool error = completion.status != StatusCode::kSuccess || lost_;
    fire = armed_type_ == NotifyType::kAny || error || (armed_type_ == NotifyType::kSolicited && solicited);
    if (fire) {
      armed_ = false;
      poll_set_.StopExpectingSleep();
    }
  }
  lock_.unlock();
  if (fire) Fire();
  if (wake) wait_.Set();
}

void SoftCompletionQueue::Fire() {
  fired_ ? fired_() : notify_.Set();
}

Status SoftCompletionQueue::SetNotification(std::function<void()> fired) {
  if (core_->forked()) return InParent();
  if (!fired) return {StatusCode::kInvalidParameter1, "a notification needs a function to call"};
  if (watch_) {
    return {StatusCode::kNotSupported,
            "without a progress thread only handle() tells of data that arrives while nobody polls"};
  }
  fired_ = std::move(fired);
  return Status::Ok();
}

Status SoftCompletionQueue::Notify(NotifyType type) {
  if (core_->forked()) return InParent();
  bool fire = false;
  {
    BiasedGuard guard(lock_);
    if (type == NotifyType::kAny && head_ != tail_) {
      // All armed kinds fire together.
      armed_ = false;
      fire = true;
    } else if (!armed_) {
      armed_ = true;
      armed_type_ = type;
    } else if (type == NotifyType::kAny || armed_type_ == NotifyType::kAny) {
      armed_type_ = NotifyType::kAny;
    } else if (type == NotifyType::kSolicited) {
      armed_type_ = NotifyType::kSolicited;
    }
  }
  if (fire) {
    Fire();
  } else if (watch_) {
    WatchTransports();
  } else {
    poll_set_.ExpectSleep();
  }
  return Status::Ok();
}

void SoftCompletionQueue::ConsumeNotification() {
  if (core_->forked()) return;
  if (watch_) poll_set_.DriveAll();
  // After the round, which may ring for this thread. Its completions are polled after this call.
  notify_.Clear();
  // The handle was readable for a transport; the notification is still pending.
  if (watch_ && armed_.load(std::memory_order_relaxed)) WatchTransports();
}

// Without a progress thread only the event loop of the application watches the transports.
void SoftCompletionQueue::WatchTransports() {
  std::vector<os::Watched> fds;
  for (int i = 0; i < kRoundsBeforeSleep; ++i) {
    fds.clear();
    Time deadline = Time::max();
    if (!poll_set_.PrepareToSleep(&fds, &deadline)) return;
    poll_set_.DriveAll();
  }
  notify_.Set();  // Work remains, so the event loop returns at once.
}

// The signal is for all threads in Wait. The last one resets it.
void SoftCompletionQueue::LeaveWait(bool signalled) {
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) != 1 || !signalled) return;
  wait_.Clear();
  // Another thread started to wait in the meantime, and the reset signal may have been for it.
  if (waiters_.load(std::memory_order_seq_cst) != 0) wait_.Set();
}

Status SoftCompletionQueue::Wait(Time deadline) {
  if (core_->forked()) return InParent();
  std::vector<os::Watched> watched;
  for (;;) {
    // A completion that is found at once does not show whether polling pays.
    if (count_.load(std::memory_order_acquire) != 0) return Status::Ok();
    if (Status lost = state(); !lost.ok()) return lost;
    poll_set_.Poll(nullptr);
    if (count_.load(std::memory_order_acquire) != 0) return Status::Ok();
    Time now = std::chrono::steady_clock::now();
    const Time spin_until = now + spin_.Next();
    while (now < spin_until && now < deadline) {
      if (Status lost = state(); !lost.ok()) return lost;
      poll_set_.Poll(nullptr);
      if (count_.load(std::memory_order_acquire) != 0) {
        spin_.Paid();
        return Status::Ok();
      }
      CpuRelax();
      now = std::chrono::steady_clock::now();
    }
    if (now >= deadline) return {StatusCode::kIoTimeout, "no completion arrived in time"};

    {
      BiasedGuard guard(lock_);
      waiters_.fetch_add(1, std::memory_order_seq_cst);
    }
    watched.assign(1, os::Watched{wait_.handle()});
    Time wake = deadline;
    bool signalled = false;
    const bool busy = poll_set_.PrepareToSleep(&watched, &wake);
    if (!busy && count_.load(std::memory_order_seq_cst) == 0) {
      spin_.DidNotPay();
      const Duration left = std::max(wake - std::chrono::steady_clock::now(), Duration::zero());
      os::Wait(watched, std::min<Duration>(left, std::chrono::hours(1)));
      signalled = watched[0].ready != 0;
    }
    LeaveWait(signalled);
    poll_set_.DriveAll();
  }
}

Status SoftCompletionQueue::Resize(std::uint32_t depth) {
  if (depth == 0 || depth > core_->info.max_completion_queue_depth) {
    return {StatusCode::kInvalidParameter, "a completion queue holds 1 to max_completion_queue_depth"};
  }
  const std::uint32_t slots = PowerOfTwo(depth);
  Completion* ring = NewRing(slots);
  if (ring == nullptr) return {StatusCode::kNoMemory, "no memory for the completion queue"};
  Completion* old = ring;
  Status status;
  {
    BiasedGuard guard(lock_);
    if (head_ - tail_ > depth) {
      status = Status(StatusCode::kBufferOverflow, "more completions wait than the new depth holds");
    } else {
      for (std::uint64_t i = tail_; i != head_; ++i)
        new (&ring[i & (slots - 1)]) Completion(ring_[i & (slots_ - 1)]);
      old = std::exchange(ring_, ring);
      slots_ = slots;
      depth_ = depth;
    }
  }
  ::operator delete(old);
  return status;
}

Status SoftCompletionQueue::state() const {
  BiasedGuard guard(lock_);
  if (!lost_) return Status::Ok();
  return {StatusCode::kBufferOverflow, "more completions arrived than the queue holds; it is lost"};
}

void SoftCompletionQueue::AddTransport(int fd) {
  // The descriptor leaves the set when it is closed. A failed Add costs only one wake-up of the handle.
  if (watch_ && fd >= 0) watch_->Add(fd, os::kReadable, kNoTag, os::WatchSet::Until::kRemoved);
  WakeSleepers();
}

void SoftCompletionQueue::WakeSleepers() {
  if (waiters_.load(std::memory_order_seq_cst) != 0) wait_.Set();
  if (watch_ && armed_.load(std::memory_order_relaxed)) notify_.Set();
}

}  // namespace nd::provider::soft
