// SPDX-License-Identifier: Apache-2.0
// One-sided operations complete while the target application sleeps because this thread does not.
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "provider/soft/qp/drive/progress_thread.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

// Never destroyed: the thread runs until the process ends. A forked child starts its own.
std::mutex instance_mutex;
ProgressThread* instance = nullptr;
std::uint32_t instance_generation = 0;

constexpr std::uint64_t kWakeId = 0;

}  // namespace

ProgressThread* ProgressThread::Get() {
  std::lock_guard lock(instance_mutex);
  if (instance != nullptr && instance_generation == ForkGeneration()) return instance;
  auto made = std::unique_ptr<ProgressThread>(new ProgressThread);
  if (!made->Start()) return nullptr;
  instance = made.release();
  instance_generation = ForkGeneration();
  return instance;
}

bool ProgressThread::Start() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (!epoll_ || !wake_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return false;
  // Signals are the application's business.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const int error = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        static_cast<ProgressThread*>(self)->Run();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (error != 0) return false;
  pthread_setname_np(thread, "nd-progress");
  pthread_detach(thread);
  return true;
}

std::uint64_t ProgressThread::Add(std::weak_ptr<SoftQueuePair> queue_pair, int fd) {
  std::uint64_t id;
  {
    std::lock_guard lock(mutex_);
    id = next_id_++;
    entries_[id] = Entry{std::move(queue_pair), fd, Time::max()};
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    std::lock_guard lock(mutex_);
    entries_.erase(id);
    return 0;
  }
  Call(id);
  return id;
}

void ProgressThread::Remove(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  timers_.erase({found->second.next, id});
  entries_.erase(found);
}

void ProgressThread::Call(std::uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    called_.push_back(id);
    if (called_.size() > 1) return;  // The wake-up for the first one is on its way.
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void ProgressThread::Schedule(std::uint64_t id, Entry& entry, Time when) {
  if (entry.next == when) return;
  timers_.erase({entry.next, id});
  entry.next = when;
  if (when != Time::max()) timers_.insert({when, id});
}

int ProgressThread::TimeoutMs() {
  std::lock_guard lock(mutex_);
  if (timers_.empty()) return -1;
  const Time now = std::chrono::steady_clock::now();
  if (timers_.begin()->first <= now) return 0;
  const Duration left = timers_.begin()->first - now;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(ms, 3'600'000));
}

void ProgressThread::Visit(const std::vector<std::uint64_t>& ids) {
  struct Guest {
    std::uint64_t id;
    std::shared_ptr<SoftQueuePair> queue_pair;
  };
  std::vector<Guest> guests;
  {
    std::lock_guard lock(mutex_);
    for (const std::uint64_t id : ids) {
      auto found = entries_.find(id);
      if (found == entries_.end()) continue;
      Schedule(id, found->second, Time::max());
      if (auto queue_pair = found->second.queue_pair.lock()) guests.push_back({id, std::move(queue_pair)});
    }
  }
  std::vector<std::uint64_t> served;
  std::vector<SoftQueuePair*> arming;
  for (const Guest& guest : guests) {
    Deferred deferred;
    if (guest.queue_pair->Serve(&deferred)) {
      served.push_back(guest.id);
      arming.push_back(guest.queue_pair.get());
    } else {
      VisitAgainAt(guest.id, std::chrono::steady_clock::now() + guest.queue_pair->core().tuning.put_off);
    }
    deferred.Run();
  }
  const std::vector<Interest> interests = ArmForSleep(arming, Sleeper::kProgressThread);
  for (std::size_t i = 0; i < served.size(); ++i) Watch(served[i], interests[i]);
}

void ProgressThread::VisitAgainAt(std::uint64_t id, Time when) {
  std::lock_guard lock(mutex_);
  if (auto found = entries_.find(id); found != entries_.end()) Schedule(id, found->second, when);
}

void ProgressThread::Watch(std::uint64_t id, const Interest& interest) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Schedule(id, found->second, interest.runnable ? Time::min() : interest.deadline);
  if (interest.runnable || interest.fd < 0) return;
  epoll_event event{};
  event.events = static_cast<std::uint32_t>(interest.events()) | EPOLLONESHOT;
  event.data.u64 = id;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void ProgressThread::Run() {
  epoll_event events[64];
  std::vector<std::uint64_t> due;
  for (;;) {
    const int n = epoll_wait(epoll_.get(), events, 64, TimeoutMs());
    due.clear();
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 != kWakeId) {
        due.push_back(events[i].data.u64);
        continue;
      }
      // Before the list is taken: a call after that rings again.
      std::uint64_t count;
      [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
    }
    {
      std::lock_guard lock(mutex_);
      due.insert(due.end(), called_.begin(), called_.end());
      called_.clear();
      const Time now = std::chrono::steady_clock::now();
      for (auto timer = timers_.begin(); timer != timers_.end() && timer->first <= now; ++timer) {
        due.push_back(timer->second);
      }
    }
    std::sort(due.begin(), due.end());
    due.erase(std::unique(due.begin(), due.end()), due.end());
    Visit(due);
  }
}

}  // namespace nd::provider::soft
