// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/driven_set.h"

#include <sys/epoll.h>

#include <algorithm>

#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

// How many queue pairs one poll looks at; the next one goes on where this one stopped. So many never cool.
constexpr std::size_t kDrivenPerPoll = 16;
constexpr std::uint32_t kDrivesBetweenCooling = 256;
// Going cold and coming back costs some microseconds on either side, as much as the least number of rounds.
// Where the woken queue up all the same, all are busy: then polling all of them is cheaper.
constexpr std::uint32_t kLeastQuiet = 16, kMostQuiet = 16384;

bool DriveOne(SoftQueuePair& queue_pair, bool look_at_fd, std::vector<Deferred>* deferred) {
  Deferred later;
  const bool moved = queue_pair.Drive(look_at_fd, &later);
  if (later) deferred->push_back(std::move(later));
  return moved;
}

}  // namespace

void DrivenSet::Add(SoftQueuePair* queue_pair) {
  SpinGuard guard(lock_);
  members_.try_emplace(queue_pair->number(), Member{queue_pair});
}

void DrivenSet::Remove(SoftQueuePair* queue_pair) {
  {
    SpinGuard guard(put_off_lock_);
    put_off_.erase(queue_pair->number());
  }
  SpinGuard guard(lock_);
  const auto found = members_.find(queue_pair->number());
  if (found == members_.end()) return;
  std::erase_if(hot_, [=](const Hot& hot) { return hot.queue_pair == queue_pair; });
  members_.erase(found);
}

void DrivenSet::MakeHot(Member& member) {
  if (member.hot) return;
  member.hot = true;
  hot_.push_back({member.queue_pair, &member});
}

void DrivenSet::Heat(std::uint32_t number) {
  SpinGuard guard(lock_);
  if (const auto found = members_.find(number); found != members_.end()) MakeHot(found->second);
}

std::size_t DrivenSet::hot() const {
  SpinGuard guard(lock_);
  return hot_.size();
}

bool DrivenSet::Drive(bool look_at_fds) {
  // Another thread that drives this set does the same work; waiting for it would gain nothing.
  if (!lock_.try_lock()) return false;
  std::vector<Deferred> deferred;
  bool moved = woken_ && hot_.size() < members_.size() && DriveWoken(&deferred);
  const std::size_t some = look_at_fds ? hot_.size() : std::min(hot_.size(), kDrivenPerPoll);
  for (std::size_t i = 0; i < some; ++i) {
    if (next_ >= hot_.size()) next_ = 0;
    Hot& hot = hot_[next_++];
    const bool it_moved = DriveOne(*hot.queue_pair, look_at_fds, &deferred);
    hot.quiet = it_moved ? 0 : hot.quiet + 1;
    moved |= it_moved;
  }
  if (hot_.size() > kDrivenPerPoll && ++drives_ % kDrivesBetweenCooling == 0) {
    quiet_limit_ = std::exchange(crowd_, false) ? std::min(quiet_limit_ * 4, kMostQuiet)
                                                : std::max(quiet_limit_ / 2, kLeastQuiet);
    Cool(quiet_limit_);
  }
  lock_.unlock();
  for (Deferred& later : deferred) later.Run();
  return moved;
}

bool DrivenSet::DriveWoken(std::vector<Deferred>* deferred) {
  epoll_event events[kDrivenPerPoll];
  const int count = epoll_wait(woken_.get(), events, kDrivenPerPoll, 0);
  crowd_ |= count == kDrivenPerPoll;
  bool moved = false;
  for (int i = 0; i < count; ++i) {
    const auto found = members_.find(events[i].data.u32);
    if (found == members_.end()) continue;  // A copy of its descriptor lives on in another process.
    MakeHot(found->second);
    moved |= DriveOne(*found->second.queue_pair, true, deferred);
  }
  return moved;
}

void DrivenSet::Cool(std::uint32_t quiet) {
  if (!may_cool_) return;
  if (!woken_) woken_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  // The quiet ones to the end; they are armed, and leave if the kernel takes them.
  const auto first =
      std::partition(hot_.begin(), hot_.end(), [=](const Hot& hot) { return hot.quiet < quiet; });
  const std::vector<SleepInfo> infos = Arm({first, hot_.end()});
  auto info = infos.begin();
  for (auto hot = first; hot != hot_.end(); ++hot, ++info) {
    hot->member->hot = !Watch(*hot->member, *info);
    hot->quiet = 0;
  }
  hot_.erase(std::remove_if(first, hot_.end(), [](const Hot& hot) { return !hot.member->hot; }), hot_.end());
}

std::vector<SleepInfo> DrivenSet::Arm(std::span<const Hot> some) {
  bool barrier = false;
  for (const Hot& hot : some) barrier |= hot.queue_pair->BeginSleep();
  barrier = barrier && GlobalBarrier();
  std::vector<SleepInfo> infos;
  infos.reserve(some.size());
  for (const Hot& hot : some) infos.push_back(hot.queue_pair->PrepareToSleep(barrier));
  return infos;
}

bool DrivenSet::Watch(Member& member, const SleepInfo& info) {
  // What must be done at a time, or is not done yet, needs somebody who looks.
  if (info.busy || (info.events & POLLOUT) != 0 || info.deadline != Time::max()) return false;
  member.queue_pair->SetCold();
  if (info.fd < 0) return true;
  epoll_event event{};
  event.events = static_cast<std::uint32_t>(info.events) | EPOLLONESHOT;
  event.data.u32 = member.queue_pair->number();
  // A queue pair has one connection in its life, and so one descriptor.
  const int operation = std::exchange(member.watched, true) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(woken_.get(), operation, info.fd, &event) == 0) return true;
  member.watched = operation == EPOLL_CTL_MOD;
  return false;
}

bool DrivenSet::PrepareToSleep(std::vector<pollfd>* fds, Time* deadline) {
  SpinGuard guard(lock_);
  if (hot_.size() > kDrivenPerPoll) Cool(0);
  bool busy = false;
  for (const SleepInfo& info : Arm(hot_)) {
    busy |= info.busy;
    *deadline = std::min(*deadline, info.deadline);
    // A reset is told whatever is asked for.
    if (info.fd >= 0) fds->push_back({info.fd, static_cast<short>(info.events), 0});
  }
  if (woken_) fds->push_back({woken_.get(), POLLIN, 0});
  return busy;
}

void DrivenSet::PutOff(std::uint32_t number) {
  SpinGuard guard(put_off_lock_);
  put_off_.insert(number);
}

void DrivenSet::CallThread() {
  std::unordered_set<std::uint32_t> put_off;
  {
    SpinGuard guard(put_off_lock_);
    put_off.swap(put_off_);
  }
  if (put_off.empty()) return;
  SpinGuard guard(lock_);
  for (const std::uint32_t number : put_off) {
    if (const auto found = members_.find(number); found != members_.end()) {
      found->second.queue_pair->CallThread();
    }
  }
}

}  // namespace nd::provider::soft
