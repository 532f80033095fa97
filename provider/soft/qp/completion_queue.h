// SPDX-License-Identifier: Apache-2.0
// The completions of any number of queue pairs, in one bounded ring.
//
// Thread rule: any thread. Lock order: the queue pairs (PollSet), then the ring.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "base/os/wait.h"
#include "base/os/wake_event.h"
#include "base/os/watch_set.h"
#include "provider/qp.h"
#include "provider/soft/qp/biased_lock.h"
#include "provider/soft/qp/drive/direct_policy.h"
#include "provider/soft/qp/drive/poll_set.h"
#include "provider/soft/qp/drive/spin_policy.h"
#include "provider/soft/qp/memory.h"

namespace nd::provider::soft {

class SoftCompletionQueue;

// The place that a poll lends to the queue pair that it visits: completions for the polled queue go there at
// once, instead of through the ring.
struct LentSpan {
  const SoftCompletionQueue* queue;
  Completion *next, *end;
};

class SoftCompletionQueue final : public CompletionQueue {
 public:
  static Result<std::shared_ptr<SoftCompletionQueue>> Create(std::shared_ptr<DeviceCore> core,
                                                             std::uint32_t depth);
  ~SoftCompletionQueue() override;

  std::size_t Poll(std::span<Completion> out) override;
  Status Notify(NotifyType type) override;
  int handle() const override;
  bool ConsumeNotification() override;
  Status SetNotification(std::function<void()> fired) override;
  Status Wait(Time deadline) override;
  Status Resize(std::uint32_t depth) override;
  Status state() const override;

  const std::shared_ptr<DeviceCore>& core() const { return core_; }

  // Called by queue pairs, under their lock. Returns true when a completion may go to the span that the
  // present poll has lent: no earlier one of the queue pair is in the ring, and nobody is to be told.
  [[gnu::always_inline]] bool MayBypass() const {
    return count_.load(std::memory_order_relaxed) == 0 && !armed_.load(std::memory_order_relaxed) &&
           waiters_.load(std::memory_order_relaxed) == 0 && !lost_.load(std::memory_order_relaxed);
  }
  // Called by queue pairs, under their lock. When the ring is full the completion is lost.
  [[gnu::always_inline]] void Push(const Completion& completion, bool solicited) {
    lock_.lock();
    const bool heard =
        armed_.load(std::memory_order_relaxed) || waiters_.load(std::memory_order_relaxed) != 0;
    if (heard || lost_.load(std::memory_order_relaxed) || head_ - tail_ >= depth_) [[unlikely]]
      return PushAndTell(Completion(completion),
                         solicited);  // The copy: else the original is in memory always.
    Append(completion);
    lock_.unlock();
  }
  PollSet& poll_set() { return poll_set_; }
  // A queue pair has a transport now: sleepers must watch its descriptor too.
  void AddTransport(int fd);
  // Before the descriptor is closed.
  void RemoveTransport(int fd);
  // Wakes sleepers so that they check the transports again: one is gone, or the wake-up of a sleeper was
  // consumed.
  void WakeSleepers();

 private:
  explicit SoftCompletionQueue(std::shared_ptr<DeviceCore> core)
      : core_(std::move(core)), poll_set_(core_->progress_thread) {}
  std::size_t Take(std::span<Completion> out);
  // The next two: with the lock, which the second one releases.
  void Append(const Completion& completion) {
    new (&ring_[head_ & (slots_ - 1)]) Completion(completion);
    ++head_;
    count_.store(head_ - tail_, std::memory_order_release);
  }
  void PushAndTell(const Completion& completion, bool solicited);
  bool has_thread() const { return core_->progress_thread; }
  // Arms the transports. *fds: their descriptors.
  void ArmTransports(std::vector<os::Watched>* fds);
  // drive/direct_policy.h. The first one returns false when the progress thread has to wake the application.
  bool NotifyDirectly();
  bool ConsumeDirectly();
  void EndDirect();
  void LeaveWait(bool signalled);
  enum class Slept {
    kNot,     // Or not long enough: on descriptors then.
    kInVain,  // Until its time, or until something changed that is no wake-up.
    kWoken,
  };
  // Sleeps on words of memory, for a short time. `seen`: word_ before the last look for completions.
  Slept SleepOnWords(std::uint32_t seen, Time until);
  void WakeWaiters();
  void Fire();

  std::shared_ptr<DeviceCore> core_;
  PollSet poll_set_;
  SpinPolicy spin_;
  os::WakeEvent notify_, wait_;
  std::function<void()>
      fired_;  // In place of notify_. Set before the queue is armed, so read without a lock.
  // notify_, and while the transports wake the application themselves, the transports: always without a
  // progress thread.
  os::WatchSet watch_;
  // Lock order: may be taken under any other lock here.
  SpinLock direct_lock_;
  DirectPolicy direct_policy_;
  std::vector<int> direct_fds_;            // With a progress thread: the transports in watch_.
  std::uint64_t removals_ = 0;             // Calls of RemoveTransport().
  std::atomic<bool> notified_{false};      // Fired since the last ConsumeNotification().
  std::atomic<bool> work_remains_{false};  // notify_ was set without that.

  mutable BiasedLock lock_;
  Completion* ring_ = nullptr;
  std::uint32_t depth_ = 0, slots_ = 0;
  std::uint64_t head_ = 0, tail_ = 0;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<bool> lost_{false};   // Written under lock_.
  std::atomic<bool> armed_{false};  // Written under lock_.
  NotifyType armed_type_ = NotifyType::kErrors;
  // Changes with wait_ while threads in Wait sleep on it.
  std::atomic<std::uint32_t> word_{0}, on_word_{0};
  std::atomic<Time> next_look_{Time()};    // Of a thread that was woken by a word, at the descriptors.
  std::atomic<std::uint32_t> takes_{0};    // Polls that found completions in the ring; about so many.
  std::atomic<std::uint32_t> waiters_{0};  // Threads in Wait that sleep or are about to. Grows under lock_.
};

}  // namespace nd::provider::soft
