// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/os/readiness.h"
#include "base/os/wake_event.h"
#include "base/os/watch_set.h"

namespace nd {
namespace {

// The given clock without the time in which the host stopped the process. A virtual machine can be stopped
// for a minute, and so can this process. No client could answer meanwhile, and what it sent before may be
// unread. Time in which the thread does nothing for longer than it wanted to wait counts as such.
class RunningClock final : public Clock {
 public:
  explicit RunningClock(const Clock& clock) : clock_(clock) {}
  Time Now() const override { return After(Duration::zero()); }
  // The time after the thread has waited, at most for so long. Negative: until an event.
  Time After(Duration wait) const {
    const Time now = clock_.Now();
    if (wait >= Duration::zero() && now - seen_ - wait >= kStop) Notice(now - wait);
    seen_ = now;
    return now - stopped_;
  }

 private:
  static constexpr Duration kStop = std::chrono::seconds(1);

  void Notice(Time now) const {
    // A test that advances its clock stops nothing.
    const Duration ahead = clock_.Now() - std::chrono::steady_clock::now();
    const Duration lost = now - seen_ - (ahead - std::exchange(ahead_, ahead));
    if (lost >= kStop) stopped_ += lost;
  }

  const Clock& clock_;
  mutable Time seen_ = clock_.Now();
  mutable Duration ahead_ = seen_ - std::chrono::steady_clock::now();
  mutable Duration stopped_{};
};

}  // namespace

class EventLoop::Impl {
 public:
  explicit Impl(const Clock& clock) : clock_(clock) {
    if (!watched_ || !wake_ || !watched_.Add(wake_.handle(), os::kReadable, kWake, kRemoved)) {
      std::perror("ndbroker: cannot create an event loop");
      std::abort();  // Only at start-up, when the process cannot do anything useful.
    }
  }

  bool Add(int fd, std::uint32_t events, FdCallback callback, Account account) {
    const std::uint64_t registration = ++last_registration_;
    if (!watched_.Add(fd, events, registration, kRemoved)) return false;
    const auto [it, added] = registrations_.try_emplace(fd, registration);
    if (!added) watches_.erase(std::exchange(it->second, registration));  // Closed without Remove().
    watches_[registration] =
        std::make_shared<Watched>(Watched{std::move(callback), account, events | kAlwaysReported, 0});
    return true;
  }

  void Modify(int fd, std::uint32_t events) {
    const auto it = registrations_.find(fd);
    if (it == registrations_.end()) return;
    watched_.Change(fd, events, it->second, kRemoved);
    watches_[it->second]->wanted = events | kAlwaysReported;
  }

  void Remove(int fd) {
    const auto it = registrations_.find(fd);
    if (it == registrations_.end()) return;
    watches_.erase(it->second);
    registrations_.erase(it);
    watched_.Remove(fd);
  }

  TimerId At(Time when, Callback callback) {
    const std::uint64_t id = ++last_timer_;
    timers_.emplace(std::pair(when, id), std::move(callback));
    timer_times_.emplace(id, when);
    return TimerId{id};
  }

  void Cancel(TimerId timer) {
    const auto it = timer_times_.find(static_cast<std::uint64_t>(timer));
    if (it == timer_times_.end()) return;
    timers_.erase({it->second, it->first});  // Or it is in pending_due_, which passes over it.
    timer_times_.erase(it);
  }

  void Post(Account account, Callback callback) {
    bool was_empty;
    {
      const std::lock_guard lock(mutex_);
      was_empty = posted_.empty();
      posted_.push_back({account, std::move(callback)});
      any_posted_.store(true, std::memory_order_relaxed);
    }
    // A post from the loop itself needs no wake-up, because the loop checks before it waits.
    if (was_empty && runner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) wake_.Set();
  }

  bool TurnIsOver() const { return !turns_.empty() && clock_.Now() - turn_began_ >= kTurn; }

  std::uint64_t moment() const { return moment_; }
  void NextMoment() { ++moment_; }

  void Stop() {
    stop_.store(true);
    wake_.Set();
  }

  void Run() {
    while (!stop_.exchange(false)) RunOnce(Duration(-1));
  }

  void RunOnce(Duration timeout) {
    std::array<Event, os::WatchSet::kMostReady> events;
    const Duration wait = Wait(timeout);
    const std::size_t count = watched_.Take(events, wait);
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    const auto started = std::chrono::steady_clock::now();
    RunTimers(clock_.After(wait));
    if (count == 1 && turns_.empty()) {
      RunFd(events[0]);
    } else {
      for (std::size_t i = 0; i < count; ++i) QueueFd(events[i]);
      TakeTurns();
    }
    RunPosted();
    const Duration took = std::chrono::steady_clock::now() - started;
    runner_.store({}, std::memory_order_relaxed);
    longest_round_ = std::max(longest_round_, took);
    rounds_.Add(took);
  }

  Duration TakeLongestRound() { return std::exchange(longest_round_, Duration::zero()); }
  Rounds rounds() const { return rounds_; }
  const Clock& clock() const { return clock_; }

 private:
  using Event = os::WatchSet::Ready;  // Its tag is the number of a registration.
  static constexpr auto kRemoved = os::WatchSet::Until::kRemoved;
  // The registration of the wake-up descriptor.
  static constexpr std::uint64_t kWake = 0;
  static constexpr std::uint32_t kAlwaysReported = os::kFailed | os::kHungUp;
  // While work waits, the loop looks this often for accounts that have become ready.
  static constexpr Duration kLook = std::chrono::microseconds(200);
  // One callback should not take longer while other work waits.
  static constexpr Duration kTurn = std::chrono::microseconds(100);

  struct Watched {
    FdCallback callback;
    Account account;
    std::uint32_t wanted;
    std::uint32_t ready;  // The events of a descriptor that waits for its turn; otherwise 0.
  };
  struct Posted {
    Account account;
    Callback callback;
  };
  struct Work {
    std::uint64_t registration;
    Callback posted;  // Null: the callback of the registration.
  };

  template <typename Function, typename... Arguments>
  void Call(const Function& callback, Arguments... arguments) {
    NextMoment();
    callback(arguments...);
  }

  // How long a round waits for events.
  Duration Wait(Duration timeout) {
    if (!turns_.empty() || !pending_due_.empty() || !common_.empty()) return Duration::zero();
    if (any_posted_.load(std::memory_order_relaxed)) return Duration::zero();
    if (!timers_.empty()) {
      const Duration until =
          std::max<Duration>(timers_.begin()->first.first - clock_.Now(), Duration::zero());
      timeout = timeout < Duration::zero() ? until : std::min(timeout, until);
    }
    return timeout;
  }

  // Until those that are due have run, or for so long that it is time to look for descriptors.
  void RunTimers(Time now) {
    // Timers made by these callbacks wait for the next round, so that one cannot starve the descriptors.
    while (!timers_.empty() && timers_.begin()->first.first <= now) {
      const auto first = timers_.begin();
      pending_due_.push_back({first->first.second, std::move(first->second)});
      timers_.erase(first);
    }
    for (bool look = false; !pending_due_.empty() && !look;) {
      auto [id, callback] = std::move(pending_due_.front());
      pending_due_.pop_front();
      if (timer_times_.erase(id) == 0) continue;  // Cancelled by an earlier callback.
      Call(callback);
      look = clock_.Now() - now >= kLook;
    }
  }

  // An earlier callback of this round may have removed the registration. Its descriptor's number may belong
  // to another registration by now, which this event does not concern.
  std::shared_ptr<Watched> Find(std::uint64_t registration) const {
    const auto it = watches_.find(registration);
    return it == watches_.end() ? nullptr : it->second;
  }

  // Returns true when the event was the wake-up.
  bool TakeWake(const Event& event) {
    if (event.tag != kWake) return false;
    wake_.Clear();
    return true;
  }

  void RunFd(const Event& event) {
    if (TakeWake(event)) return;
    const std::shared_ptr<Watched> watched = Find(event.tag);  // It may remove itself.
    if (watched) Call(watched->callback, event.ready);
  }

  void QueueFd(const Event& event) {
    if (TakeWake(event)) return;
    const std::shared_ptr<Watched> watched = Find(event.tag);
    if (!watched) return;
    const bool waits = watched->ready != 0;
    watched->ready = event.ready;
    if (!waits) turns_.Add(watched->account, {event.tag, nullptr});
  }

  void Run(const Work& work) {
    if (work.posted) return Call(work.posted);
    const std::shared_ptr<Watched> watched = Find(work.registration);
    if (!watched) return;
    const std::uint32_t ready = std::exchange(watched->ready, 0) & watched->wanted;
    if (ready != 0) Call(watched->callback, ready);
  }

  // Runs waiting work until there is none, or until it is time to ask the descriptors for other accounts.
  void TakeTurns() {
    Time now = clock_.Now();
    for (const Time until = now + kLook; !turns_.empty() && now < until;) {
      const Turns<Work>::Turn turn = turns_.Take();
      turn_began_ = now;
      Run(turn.work);
      now = clock_.Now();
      turns_.Charge(turn.account, now - turn_began_);
    }
  }

  void RunPosted() {
    if (any_posted_.load(std::memory_order_relaxed)) TakePosted();
    RunCommon();
  }

  void TakePosted() {
    std::vector<Posted> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(posted_);
      any_posted_.store(false, std::memory_order_relaxed);
    }
    if (batch.size() == 1 && turns_.empty() && common_.empty()) return Call(batch[0].callback);
    for (Posted& posted : batch) {
      if (posted.account == Account::kCommon) {
        common_.push_back(std::move(posted.callback));
      } else {
        turns_.Add(posted.account, {kWake, std::move(posted.callback)});
      }
    }
  }

  void RunCommon() {
    if (common_.empty()) return;
    // Until all have run, or for so long that it is time to look for descriptors.
    const Time began = clock_.Now();
    do {
      const Callback callback = std::move(common_.front());
      common_.pop_front();
      Call(callback);
    } while (!common_.empty() && clock_.Now() - began < kLook);
  }

  RunningClock clock_;
  os::WatchSet watched_;
  os::WakeEvent wake_;
  // Every Add() makes a registration with a number of its own; an event names the registration.
  std::uint64_t last_registration_ = kWake;
  std::unordered_map<int, std::uint64_t> registrations_;  // By descriptor.
  std::unordered_map<std::uint64_t, std::shared_ptr<Watched>> watches_;
  std::map<std::pair<Time, std::uint64_t>, Callback> timers_;  // By a time that stands still in pauses.
  std::unordered_map<std::uint64_t, Time> timer_times_;
  std::deque<std::pair<std::uint64_t, Callback>> pending_due_;  // Timers whose time has come.
  std::uint64_t last_timer_ = 0;
  std::mutex mutex_;
  std::vector<Posted> posted_;
  // Whether there are any. A post of another thread that is not seen here has set `wake_`.
  std::atomic<bool> any_posted_{false};
  std::deque<Callback> common_;  // Posted for nobody in particular; those of earlier rounds are in front.
  Turns<Work> turns_;            // The work that is ready and was not done yet.
  Time turn_began_{};
  std::uint64_t moment_ = 0;
  std::atomic<std::thread::id> runner_{};  // The thread in RunOnce().
  std::atomic<bool> stop_{false};
  Duration longest_round_{};
  Rounds rounds_;
};

void EventLoop::Rounds::Add(Duration took) {
  std::size_t bucket = 0;
  while (bucket < kBoundsUs.size() && took > std::chrono::microseconds(kBoundsUs[bucket])) ++bucket;
  ++counts[bucket];
  busy += took;
}

EventLoop::EventLoop(const Clock& clock) : impl_(std::make_unique<Impl>(clock)) {}
EventLoop::~EventLoop() = default;
const Clock& EventLoop::clock() const {
  return impl_->clock();
}
bool EventLoop::Add(int fd, std::uint32_t wanted, FdCallback callback, Account account) {
  return impl_->Add(fd, wanted, std::move(callback), account);
}
bool EventLoop::TurnIsOver() const {
  return impl_->TurnIsOver();
}
std::uint64_t EventLoop::moment() const {
  return impl_->moment();
}
void EventLoop::NextMoment() {
  impl_->NextMoment();
}
void EventLoop::Modify(int fd, std::uint32_t wanted) {
  impl_->Modify(fd, wanted);
}
void EventLoop::Remove(int fd) {
  impl_->Remove(fd);
}
EventLoop::TimerId EventLoop::At(Time when, Callback callback) {
  return impl_->At(when, std::move(callback));
}
void EventLoop::Cancel(TimerId timer) {
  impl_->Cancel(timer);
}
void EventLoop::Post(Callback callback) {
  impl_->Post(Account::kCommon, std::move(callback));
}
void EventLoop::PostFor(Account account, Callback callback) {
  impl_->Post(account, std::move(callback));
}
void EventLoop::Stop() {
  impl_->Stop();
}
void EventLoop::Run() {
  impl_->Run();
}
void EventLoop::RunOnce(Duration timeout) {
  impl_->RunOnce(timeout);
}
Duration EventLoop::TakeLongestRound() {
  return impl_->TakeLongestRound();
}
EventLoop::Rounds EventLoop::rounds() const {
  return impl_->rounds();
}

}  // namespace nd
