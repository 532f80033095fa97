// SPDX-License-Identifier: Apache-2.0
// The event loop on epoll.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "base/os/readiness.h"
#include "base/unique_fd.h"

static_assert(nd::os::kReadable == EPOLLIN && nd::os::kWritable == EPOLLOUT && nd::os::kFailed == EPOLLERR &&
              nd::os::kHungUp == EPOLLHUP && nd::os::kPeerFinished == EPOLLRDHUP);

namespace nd {

class EventLoop::Impl {
 public:
  explicit Impl(const Clock& clock) : clock_(clock) {
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWake;
    if (!epoll_ || !wake_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
      std::perror("ndbroker: cannot create an event loop");
      std::abort();  // Only at start-up, when the process cannot do anything useful.
    }
  }

  bool Add(int fd, std::uint32_t events, FdCallback callback) {
    const std::uint64_t registration = ++last_registration_;
    if (!Control(EPOLL_CTL_ADD, fd, events, registration)) return false;
    const auto [it, added] = registrations_.try_emplace(fd, registration);
    if (!added) watches_.erase(std::exchange(it->second, registration));  // Closed without Remove().
    watches_[registration] = std::make_shared<FdCallback>(std::move(callback));
    return true;
  }

  void Modify(int fd, std::uint32_t events) {
    const auto it = registrations_.find(fd);
    if (it != registrations_.end()) Control(EPOLL_CTL_MOD, fd, events, it->second);
  }

  void Remove(int fd) {
    const auto it = registrations_.find(fd);
    if (it == registrations_.end()) return;
    watches_.erase(it->second);
    registrations_.erase(it);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
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
    timers_.erase({it->second, it->first});
    timer_times_.erase(it);
  }

  void Post(Callback callback) {
    bool was_empty;
    {
      const std::lock_guard lock(mutex_);
      was_empty = posted_.empty();
      posted_.push_back(std::move(callback));
    }
    // A post from the loop itself needs no wake-up, because the loop checks before it waits.
    if (was_empty && runner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) Wake();
  }

  void Stop() {
    stop_.store(true);
    Wake();
  }

  void Run() {
    while (!stop_.exchange(false)) RunOnce(Duration(-1));
  }

  void RunOnce(Duration timeout) {
    std::array<epoll_event, 64> events;
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), WaitMilliseconds(timeout));
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    const auto started = std::chrono::steady_clock::now();
    RunTimers();
    for (int i = 0; i < count; ++i) RunFd(events[static_cast<std::size_t>(i)]);
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
  // The registration in an event's data that means the wake-up descriptor.
  static constexpr std::uint64_t kWake = 0;

  bool Control(int operation, int fd, std::uint32_t events, std::uint64_t registration) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = registration;
    return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }

  void Wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
  }

  int WaitMilliseconds(Duration timeout) {
    {
      const std::lock_guard lock(mutex_);
      if (!posted_.empty()) return 0;
    }
    if (!timers_.empty()) {
      const Duration until =
          std::max<Duration>(timers_.begin()->first.first - clock_.Now(), Duration::zero());
      timeout = timeout < Duration::zero() ? until : std::min(timeout, until);
    }
    if (timeout < Duration::zero()) return -1;
    // Rounded up, so that the loop does not spin through the last millisecond before a timer.
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    return static_cast<int>(std::min<std::int64_t>(milliseconds, 3600 * 1000));
  }

  void RunTimers() {
    const Time now = clock_.Now();
    // Timers made by these callbacks wait for the next round, so that one cannot starve the descriptors.
    while (!timers_.empty() && timers_.begin()->first.first <= now) {
      const auto first = timers_.begin();
      pending_due_.push_back({first->first.second, std::move(first->second)});
      timers_.erase(first);
    }
    while (!pending_due_.empty()) {
      auto [id, callback] = std::move(pending_due_.front());
      pending_due_.pop_front();
      // Cancelled by an earlier callback of this round.
      if (timer_times_.erase(id) == 0) continue;
      callback();
    }
  }

  void RunFd(const epoll_event& event) {
    if (event.data.u64 == kWake) {
      std::uint64_t value;
      [[maybe_unused]] const auto got = read(wake_.get(), &value, sizeof value);
      return;
    }
    // An earlier callback of this round may have removed the registration. Its descriptor's number may
    // belong to another registration by now, which this event does not concern.
    const auto it = watches_.find(event.data.u64);
    if (it == watches_.end()) return;
    const std::shared_ptr<FdCallback> callback = it->second;  // It may remove itself.
    (*callback)(event.events);
  }

  void RunPosted() {
    std::vector<Callback> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(posted_);
    }
    for (Callback& callback : batch) callback();
  }

  const Clock& clock_;
  UniqueFd epoll_, wake_;
  // Every Add() makes a registration with a number of its own; an event names the registration.
  std::uint64_t last_registration_ = kWake;
  std::unordered_map<int, std::uint64_t> registrations_;  // By descriptor.
  std::unordered_map<std::uint64_t, std::shared_ptr<FdCallback>> watches_;
  std::map<std::pair<Time, std::uint64_t>, Callback> timers_;
  std::unordered_map<std::uint64_t, Time> timer_times_;
  std::deque<std::pair<std::uint64_t, Callback>> pending_due_;
  std::uint64_t last_timer_ = 0;
  std::mutex mutex_;
  std::vector<Callback> posted_;
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
bool EventLoop::Add(int fd, std::uint32_t epoll_events, FdCallback callback) {
  return impl_->Add(fd, epoll_events, std::move(callback));
}
void EventLoop::Modify(int fd, std::uint32_t epoll_events) {
  impl_->Modify(fd, epoll_events);
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
  impl_->Post(std::move(callback));
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
