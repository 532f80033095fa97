// SPDX-License-Identifier: Apache-2.0
// One-sided operations complete while the target application sleeps because this thread does not.
#include "provider/soft/qp/drive/progress_thread.h"

#include <algorithm>
#include <span>

#include "base/os/thread.h"
#include "base/os/wait.h"
#include "provider/soft/qp/drive/take_ready.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

// Never destroyed: the thread runs until the process ends. A forked child starts its own.
std::mutex instance_mutex;
ProgressThread* instance = nullptr;

constexpr std::uint64_t kWakeId = 0;
constexpr std::size_t kVisitsTogether = 64;
constexpr Duration kBetweenLosses = std::chrono::milliseconds(50), kFreeAfter = std::chrono::seconds(1);
constexpr std::size_t kFreedTogether = 32;  // Half a millisecond of a processor.
constexpr auto kAlways = os::WatchSet::Until::kRemoved, kOnce = os::WatchSet::Until::kReported;

}  // namespace

ProgressThread* ProgressThread::Get() {
  std::lock_guard lock(instance_mutex);
  if (instance != nullptr && !instance->process_.InChild()) return instance;
  auto made = std::unique_ptr<ProgressThread>(new ProgressThread);
  if (!made->Start()) return nullptr;
  instance = made.release();
  return instance;
}

bool ProgressThread::Start() {
  if (!watch_ || !wake_ || !watch_.Add(wake_.handle(), os::kReadable, kWakeId, kAlways)) return false;
  return os::StartLastingThread(
      "nd-progress", [](void* self) { static_cast<ProgressThread*>(self)->Run(); }, this);
}

std::uint64_t ProgressThread::Add(std::weak_ptr<SoftQueuePair> queue_pair, const Interest& interest) {
  std::uint64_t id;
  {
    std::lock_guard lock(mutex_);
    id = next_id_++;
    entries_[id] = Entry{std::move(queue_pair), interest.fd, Time::max()};
  }
  if (!watch_.Add(interest.fd, interest.wanted(), id, kOnce)) {
    std::lock_guard lock(mutex_);
    entries_.erase(id);
    return 0;
  }
  return id;
}

void ProgressThread::Remove(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  watch_.Remove(found->second.fd);
  timers_.erase({found->second.next, id});
  entries_.erase(found);
}

void ProgressThread::Call(std::uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    called_.push_back(id);
    if (called_.size() > 1) return;  // The call for the first id has woken the thread already.
  }
  wake_.Set();
}

void ProgressThread::FreeLater(std::shared_ptr<void> memory) {
  {
    std::lock_guard lock(mutex_);
    lost_.emplace_back(std::chrono::steady_clock::now(), std::move(memory));
    if (lost_.size() > 1) return;
  }
  wake_.Set();
}

Time ProgressThread::NextFree() const {
  if (lost_.empty()) return Time::max();
  return std::min(lost_.back().first + kBetweenLosses, lost_.front().first + kFreeAfter);
}

void ProgressThread::FreeSome() {
  std::vector<std::shared_ptr<void>> freed;
  std::lock_guard lock(mutex_);
  if (lost_.empty()) return;
  const Time now = std::chrono::steady_clock::now();
  while (NextFree() <= now && freed.size() < kFreedTogether) {
    freed.push_back(std::move(lost_.front().second));
    lost_.pop_front();
  }
}

void ProgressThread::Schedule(std::uint64_t id, Entry& entry, Time when) {
  if (entry.next == when) return;
  timers_.erase({entry.next, id});
  entry.next = when;
  if (when != Time::max()) timers_.insert({when, id});
}

Duration ProgressThread::TimeToSleep() {
  std::lock_guard lock(mutex_);
  if (timers_.empty() && lost_.empty()) return os::kNoLimit;
  const Time next = std::min(timers_.empty() ? Time::max() : timers_.begin()->first, NextFree());
  const Time now = std::chrono::steady_clock::now();
  return next <= now ? Duration::zero() : next - now;
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
      ComeBack(guest.id, guest.queue_pair->core().tuning.put_off);
    }
    deferred.Run();
  }
  const std::vector<Interest> interests = ArmForSleep(arming, Sleeper::kProgressThread);
  for (std::size_t i = 0; i < served.size(); ++i) Watch(served[i], interests[i]);
}

// With many connections after a longer time, so that the visits of those that are polled take a few
// percent of a core at most.
void ProgressThread::ComeBack(std::uint64_t id, Duration after) {
  const Time now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  const auto factor = static_cast<Duration::rep>(1 + entries_.size() / kVisitsTogether);
  if (auto found = entries_.find(id); found != entries_.end())
    Schedule(id, found->second, now + after * factor);
}

void ProgressThread::Watch(std::uint64_t id, const Interest& interest) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id);
  if (found == entries_.end()) return;
  Schedule(id, found->second, interest.runnable ? Time::min() : interest.deadline);
  if (interest.runnable || interest.fd < 0) return;
  watch_.Change(found->second.fd, interest.wanted(), id, kOnce);
}

void ProgressThread::Run() {
  os::WatchSet::Ready ready[os::WatchSet::kMostReady];
  std::vector<std::uint64_t> due;
  SpinPolicy spin;
  for (;;) {
    const std::size_t count = TakeReady(watch_, std::span<os::WatchSet::Ready>(ready), TimeToSleep(), spin);
    due.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if (ready[i].tag == kWakeId) {
        wake_.Clear();  // Cleared before the list is taken, so that a later call wakes the thread again.
      } else {
        due.push_back(ready[i].tag);
      }
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
    FreeSome();
  }
}

}  // namespace nd::provider::soft
