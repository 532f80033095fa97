// SPDX-License-Identifier: Apache-2.0
// Polling moves data. Wait sleeps on the transports themselves, so one wake-up leads from the peer to the
// application.
#include "provider/soft/qp/completion_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "base/os/error_text.h"
#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

// The rounds of one call that tries to finish all work before the application sleeps on handle().
constexpr int kRoundsBeforeSleep = 16;
// The rounds of one poll that move data and give it no completion.
constexpr int kRoundsWithoutCompletion = 8;
// Polls that find completions in the ring move data so rarely. Without that a Write that completes in its
// post before each poll would keep the messages of the peer away for ever.
constexpr std::uint32_t kTakesBetweenRounds = 16;
// Twice as long as a processor keeps a store back.
constexpr Duration kStoreLeaves = std::chrono::microseconds(2);
// The words of the queue pairs, and one of the completion queue.
constexpr std::size_t kMostWords = 17;
static_assert(kMostWords <= os::kMostSleptOn);
// The application waits for the watch set as a whole, so descriptors need no tags of their own.
constexpr std::uint64_t kNoTag = 0;

Status NoDescriptor(const char* what) {
  return {StatusCode::kInsufficientResources, std::string(what) + ": " + os::ErrorText(errno),
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
  if (!queue->watch_ ||
      !queue->watch_.Add(queue->notify_.handle(), os::kReadable, kNoTag, os::WatchSet::Until::kRemoved)) {
    return NoDescriptor("no watch set for the completion queue");
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
  return watch_.handle();
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
  LentSpan lent{this, out.data(), out.data() + out.size()};
  if (count_.load(std::memory_order_acquire) != 0) {
    lent.next += Take(out);
    const std::uint32_t takes = takes_.load(std::memory_order_relaxed) + 1;
    takes_.store(takes, std::memory_order_relaxed);
    if (takes % kTakesBetweenRounds == 0) poll_set_.Poll(&lent);
    return static_cast<std::size_t>(lent.next - out.data());
  }
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
  if (wake) WakeWaiters();
}

void SoftCompletionQueue::Fire() {
  if (fired_) return fired_();
  notified_.store(true, std::memory_order_relaxed);
  notify_.Set();
}

Status SoftCompletionQueue::SetNotification(std::function<void()> fired) {
  if (core_->forked()) return InParent();
  if (!fired) return {StatusCode::kInvalidParameter1, "a notification needs a function to call"};
  if (!has_thread()) {
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
  } else if (!has_thread()) {
    std::vector<os::Watched> fds;
    ArmTransports(&fds);
  } else if (type != NotifyType::kAny || !NotifyDirectly()) {
    EndDirect();
    poll_set_.ExpectSleep();
  }
  return Status::Ok();
}

bool SoftCompletionQueue::NotifyDirectly() {
  std::uint64_t removals = 0;
  {
    SpinGuard guard(direct_lock_);
    if (fired_ || !direct_policy_.direct()) return false;
    removals = removals_;
  }
  if (!poll_set_.FewInMemory()) return false;
  std::vector<os::Watched> fds;
  ArmTransports(&fds);
  SpinGuard guard(direct_lock_);
  // One of them may be another descriptor by now.
  if (removals != removals_) return false;
  for (const os::Watched& one : fds) {
    if (std::ranges::find(direct_fds_, one.fd) != direct_fds_.end()) continue;
    if (!watch_.Add(one.fd, one.wanted, kNoTag, os::WatchSet::Until::kRemoved)) return false;
    direct_fds_.push_back(one.fd);
  }
  return true;
}

void SoftCompletionQueue::EndDirect() {
  SpinGuard guard(direct_lock_);
  for (const int fd : direct_fds_) watch_.Remove(fd);
  direct_fds_.clear();
}

// Returns false when no completion of the armed type has come.
bool SoftCompletionQueue::ConsumeDirectly() {
  {
    SpinGuard guard(direct_lock_);
    if (direct_fds_.empty()) {
      if (count_.load(std::memory_order_relaxed) != 0) direct_policy_.Useful();
      notify_.Clear();
      return notified_.exchange(false, std::memory_order_relaxed);
    }
  }
  bool was_armed = false;
  std::uint64_t head = 0;
  {
    // The completions of this round are for this caller, and need no signal.
    BiasedGuard guard(lock_);
    was_armed = armed_.load(std::memory_order_relaxed) && armed_type_ == NotifyType::kAny;
    if (was_armed) armed_.store(false, std::memory_order_relaxed);
    head = head_;
  }
  poll_set_.DriveAll();
  const bool fired = notified_.exchange(false, std::memory_order_relaxed);
  if (work_remains_.exchange(false, std::memory_order_relaxed) || fired || !was_armed) notify_.Clear();
  bool came = true;
  if (was_armed) {
    BiasedGuard guard(lock_);
    came = head_ != head;
    if (!came) {
      // Earlier signals end here. From the store on a completion of the progress thread signals.
      notify_.Clear();
      armed_.store(true, std::memory_order_relaxed);
      armed_type_ = NotifyType::kAny;
    }
  }
  {
    SpinGuard guard(direct_lock_);
    came ? direct_policy_.Useful() : direct_policy_.InVain();
  }
  if (!came) {
    // From here on the progress thread tells.
    EndDirect();
    poll_set_.ExpectSleep();
  }
  return fired || (was_armed && came);
}

bool SoftCompletionQueue::ConsumeNotification() {
  if (core_->forked()) return false;
  if (has_thread()) return ConsumeDirectly();
  poll_set_.DriveAll();
  // After the round, which may ring for this thread. Its completions are polled after this call.
  notify_.Clear();
  const bool fired = notified_.exchange(false, std::memory_order_relaxed);
  // The handle was readable for a transport; the notification is still pending.
  std::vector<os::Watched> fds;
  if (armed_.load(std::memory_order_relaxed)) ArmTransports(&fds);
  return fired;
}

void SoftCompletionQueue::ArmTransports(std::vector<os::Watched>* fds) {
  for (int i = 0; i < kRoundsBeforeSleep; ++i) {
    fds->clear();
    Time deadline = Time::max();
    const Sleeper sleeper = has_thread() ? Sleeper::kEventLoop : Sleeper::kWaiter;
    const bool busy = poll_set_.PrepareToSleep(sleeper, fds, &deadline);
    if (!busy && (has_thread() || deadline == Time::max())) return;
    // Nobody comes back for a second look, so it is now.
    const Time enough = Time(std::chrono::steady_clock::now()) + kStoreLeaves;
    while (!busy && Time(std::chrono::steady_clock::now()) < enough) CpuRelax();
    if (!poll_set_.DriveAll() && !busy) return;
  }
  work_remains_.store(true, std::memory_order_relaxed);
  notify_.Set();  // The event loop returns at once.
}

void SoftCompletionQueue::WakeWaiters() {
  wait_.Set();
  // A sleeper counts itself, and looks for completions then.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (on_word_.load(std::memory_order_seq_cst) == 0) return;
  word_.fetch_add(1, std::memory_order_seq_cst);
  os::WakeWord(word_, false);
}

SoftCompletionQueue::Slept SoftCompletionQueue::SleepOnWords(std::uint32_t seen, Time until) {
  // Without the progress thread nobody would see the end of a peer, or do what another thread leaves.
  if (!has_thread() || !os::CanSleepOnWords()) return Slept::kNot;
  const Time limit = Time(std::chrono::steady_clock::now()) + core_->tuning.on_words;
  std::array<os::SleptOn, kMostWords> words;
  on_word_.fetch_add(1, std::memory_order_seq_cst);
  std::size_t count = poll_set_.SleepOnWords(std::span(words).first(kMostWords - 1));
  Slept slept = Slept::kNot;
  if (count != 0) {
    words[count++] = {&word_, seen, false};
    if (count_.load(std::memory_order_seq_cst) == 0)
      os::SleepOnWords(std::span(words).first(count), std::min(limit, until));
    if (poll_set_.LeaveWords() || word_.load(std::memory_order_relaxed) != seen) {
      slept = Slept::kWoken;
    } else if (until <= limit || Time(std::chrono::steady_clock::now()) < limit) {
      slept = Slept::kInVain;
    }
  }
  on_word_.fetch_sub(1, std::memory_order_relaxed);
  return slept;
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
    const std::uint32_t seen = word_.load(std::memory_order_seq_cst);
    watched.assign(1, os::Watched{wait_.handle()});
    Time wake = deadline;
    bool signalled = false;
    Slept slept = Slept::kNot;
    const bool busy = poll_set_.PrepareToSleep(Sleeper::kWaiter, &watched, &wake);
    if (!busy && count_.load(std::memory_order_seq_cst) == 0) {
      spin_.DidNotPay();
      slept = SleepOnWords(seen, wake);
      if (slept == Slept::kNot) {
        const Duration left = std::max(wake - std::chrono::steady_clock::now(), Duration::zero());
        os::Wait(watched, std::min<Duration>(left, std::chrono::hours(1)));
      }
      signalled = watched[0].ready != 0 || word_.load(std::memory_order_relaxed) != seen;
    }
    LeaveWait(signalled);
    // The descriptors of the others tell the end of their peers.
    const bool looks = slept != Slept::kWoken || now >= next_look_.load(std::memory_order_relaxed);
    if (looks) next_look_.store(now + core_->tuning.on_words, std::memory_order_relaxed);
    poll_set_.DriveAll(looks);
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
  if (!lost_.load(std::memory_order_acquire)) [[likely]]
    return Status::Ok();
  return {StatusCode::kBufferOverflow, "more completions arrived than the queue holds; it is lost"};
}

void SoftCompletionQueue::AddTransport(int fd) {
  // A failed Add costs only one wake-up of the handle.
  if (!has_thread() && fd >= 0) watch_.Add(fd, os::kReadable, kNoTag, os::WatchSet::Until::kRemoved);
  WakeSleepers();
}

void SoftCompletionQueue::RemoveTransport(int fd) {
  if (!has_thread()) return watch_.Remove(fd);
  SpinGuard guard(direct_lock_);
  ++removals_;
  if (std::erase(direct_fds_, fd) != 0) watch_.Remove(fd);
}

void SoftCompletionQueue::WakeSleepers() {
  if (waiters_.load(std::memory_order_seq_cst) != 0) WakeWaiters();
  if (!has_thread() && armed_.load(std::memory_order_relaxed)) notify_.Set();
}

}  // namespace nd::provider::soft
