// SPDX-License-Identifier: Apache-2.0
// Polls drive the hot queue pairs; one watch set tells which of the cold ones were woken.
#include "provider/soft/qp/drive/poll_set.h"

#include <algorithm>

#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

// The limit of the hot queue pairs that a sleeper watches, and of the woken ones that one poll drives.
constexpr std::size_t kDrivenPerPoll = 16;
constexpr std::uint32_t kDrivesBetweenCooling = 256;
// After Notify an application usually polls once or a few times more. An application that polls more often
// than this does not mean to sleep.
constexpr std::uint32_t kPollsBeforeSleep = 64;
// The limits of the quiet rounds before a queue pair cools. Cooling and heating again cost some microseconds,
// as much as kLeastQuiet rounds. When more queue pairs are woken than one poll visits, all are busy and the
// limit grows.
constexpr std::uint32_t kLeastQuiet = 16, kMostQuiet = 16384;

bool DriveOne(SoftQueuePair& queue_pair, std::vector<Deferred>* deferred) {
  Deferred later;
  const bool moved = queue_pair.Drive(true, &later);
  if (later) deferred->push_back(std::move(later));
  return moved;
}

}  // namespace

void PollSet::Add(SoftQueuePair* queue_pair) {
  BiasedGuard guard(lock_);
  members_.try_emplace(queue_pair->number(), Member{queue_pair});
}

void PollSet::Remove(SoftQueuePair* queue_pair) {
  {
    SpinGuard guard(put_off_lock_);
    put_off_.erase(queue_pair->number());
  }
  BiasedGuard guard(lock_);
  const auto found = members_.find(queue_pair->number());
  if (found == members_.end()) return;
  std::erase_if(hot_, [=](const Hot& hot) { return hot.queue_pair == queue_pair; });
  members_.erase(found);
}

void PollSet::MakeHot(Member& member) {
  if (member.hot) return;
  member.hot = true;
  hot_.push_back({member.queue_pair, &member, 0, member.queue_pair->poll_cost()});
}

void PollSet::Heat(std::uint32_t number) {
  BiasedGuard guard(lock_);
  if (const auto found = members_.find(number); found != members_.end()) MakeHot(found->second);
}

void PollSet::SetBudget(std::uint32_t budget) {
  BiasedGuard guard(lock_);
  budget_ = budget;
}

std::size_t PollSet::hot() const {
  BiasedGuard guard(lock_);
  return hot_.size();
}

bool PollSet::FewInMemory() const {
  BiasedGuard guard(lock_);
  return !hot_.empty() && hot_.size() == members_.size() && hot_.size() <= kDrivenPerPoll &&
         std::ranges::all_of(hot_, [](const Hot& hot) { return hot.cost == kCostOfMemory; });
}

[[gnu::always_inline]] inline bool PollSet::PollHot(LentSpan* lent, Deferred* deferred) {
  const std::size_t count = hot_.size();
  std::uint32_t spent = 0;
  for (std::size_t left = count; left != 0; --left) {
    if (spent >= budget_) [[unlikely]] {
      CoolSometimes();
      return false;
    }
    if (next_ >= count) next_ = 0;
    Hot& hot = hot_[next_++];
    const bool moved = hot.queue_pair->Poll(lent, deferred);
    hot.quiet = moved ? 0 : hot.quiet + 1;
    if (moved || *deferred) return moved;
    spent += hot.cost;
  }
  return false;
}

bool PollSet::Poll(LentSpan* lent) {
  if (polls_before_sleep_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    CountPollBeforeSleep();
  // Another thread is driving this set, so waiting for it would gain nothing.
  if (!lock_.try_lock()) return false;
  if (woken_ && hot_.size() < members_.size()) return PollWithCold(lent);
  Deferred deferred;
  const bool moved = PollHot(lent, &deferred);
  lock_.unlock();
  if (deferred) [[unlikely]]
    deferred.Run();
  return moved;
}

bool PollSet::PollWithCold(LentSpan* lent) {
  std::vector<Deferred> deferred;
  bool moved = DriveWoken(&deferred);
  if (Deferred later; !moved) {
    moved = PollHot(lent, &later);
    deferred.push_back(std::move(later));
  }
  lock_.unlock();
  for (Deferred& later : deferred) later.Run();
  return moved;
}

bool PollSet::DriveAll() {
  CountPollBeforeSleep();
  if (!lock_.try_lock()) return false;  // As in Poll().
  std::vector<Deferred> deferred;
  bool moved = woken_ && hot_.size() < members_.size() && DriveWoken(&deferred);
  for (Hot& hot : hot_) {
    const bool it_moved = DriveOne(*hot.queue_pair, &deferred);
    hot.quiet = it_moved ? 0 : hot.quiet + 1;
    moved |= it_moved;
  }
  lock_.unlock();
  for (Deferred& later : deferred) later.Run();
  return moved;
}

bool PollSet::DriveWoken(std::vector<Deferred>* deferred) {
  static_assert(kDrivenPerPoll <= os::WatchSet::kMostReady);
  os::WatchSet::Ready ready[kDrivenPerPoll];
  const std::size_t count = woken_->Take(ready, Duration::zero());
  crowd_ |= count == kDrivenPerPoll;
  bool moved = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = members_.find(static_cast<std::uint32_t>(ready[i].tag));
    // Another process holds a copy of the descriptor of a removed queue pair.
    if (found == members_.end()) continue;
    MakeHot(found->second);
    moved |= DriveOne(*found->second.queue_pair, deferred);
  }
  return moved;
}

void PollSet::CoolSometimes() {
  if (++drives_ % kDrivesBetweenCooling != 0) return;
  quiet_limit_ = std::exchange(crowd_, false) ? std::min(quiet_limit_ * 4, kMostQuiet)
                                              : std::max(quiet_limit_ / 2, kLeastQuiet);
  Cool(quiet_limit_);
}

void PollSet::Cool(std::uint32_t quiet) {
  if (!may_cool_) return;
  if (!woken_) woken_.emplace();
  if (!*woken_) {  // No descriptor is left; the next call tries again.
    woken_.reset();
    return;
  }
  // Moves the quiet queue pairs to the end of the list. They are armed, and become cold if the kernel watches
  // them.
  const auto first =
      std::partition(hot_.begin(), hot_.end(), [=](const Hot& hot) { return hot.quiet < quiet; });
  const std::vector<Interest> interests = Arm({first, hot_.end()}, Sleeper::kEventLoop);
  auto interest = interests.begin();
  for (auto hot = first; hot != hot_.end(); ++hot, ++interest) {
    hot->member->hot = !WatchCold(*hot->member, *interest);
    hot->quiet = 0;
  }
  hot_.erase(std::remove_if(first, hot_.end(), [](const Hot& hot) { return !hot.member->hot; }), hot_.end());
}

std::vector<Interest> PollSet::Arm(std::span<const Hot> some, Sleeper sleeper) {
  std::vector<SoftQueuePair*> queue_pairs;
  queue_pairs.reserve(some.size());
  for (const Hot& hot : some) queue_pairs.push_back(hot.queue_pair);
  return ArmForSleep(queue_pairs, sleeper);
}

bool PollSet::WatchCold(Member& member, const Interest& interest) {
  // A queue pair with a deadline, with data that does not fit into its socket or with work at hand stays hot.
  if (interest.runnable || interest.write || interest.deadline != Time::max()) return false;
  member.queue_pair->SetCold();
  if (interest.fd < 0) return true;
  // A queue pair has one connection in its life, and so one descriptor.
  const auto watch = member.watched ? &os::WatchSet::Change : &os::WatchSet::Add;
  const bool watches = (*woken_.*watch)(interest.fd, interest.wanted(), member.queue_pair->number(),
                                        os::WatchSet::Until::kReported);
  member.watched = member.watched || watches;
  return watches;
}

bool PollSet::PrepareToSleep(Sleeper sleeper, std::vector<os::Watched>* fds, Time* deadline) {
  BiasedGuard guard(lock_);
  if (hot_.size() > kDrivenPerPoll) Cool(0);
  bool runnable = false;
  for (const Interest& interest : Arm(hot_, sleeper)) {
    runnable |= interest.runnable;
    *deadline = std::min(*deadline, interest.deadline);
    // A reset is reported even when no event is wanted.
    if (interest.fd >= 0) fds->push_back({interest.fd, interest.wanted()});
  }
  if (woken_) fds->push_back({woken_->handle()});
  return runnable;
}

bool PollSet::CountPollBeforeSleep() {
  std::uint32_t left = polls_before_sleep_.load(std::memory_order_seq_cst);
  if (left == 0) return false;
  // Two simultaneous polls may count as one. A value that ExpectSleep sets meanwhile is not overwritten.
  polls_before_sleep_.compare_exchange_strong(left, left - 1, std::memory_order_relaxed);
  return true;
}

bool PollSet::LeaveToPolls(std::uint32_t number) {
  // A visit of the thread counts as a poll, because the queue pair may be polled through its other completion
  // queue.
  if (CountPollBeforeSleep()) return false;
  {
    SpinGuard guard(put_off_lock_);
    put_off_.insert(number);
  }
  // If ExpectSleep ran before the number was in the list, its count is visible here.
  return !CountPollBeforeSleep();
}

void PollSet::ExpectSleep() {
  polls_before_sleep_.store(kPollsBeforeSleep, std::memory_order_seq_cst);
  std::unordered_set<std::uint32_t> put_off;
  {
    SpinGuard guard(put_off_lock_);
    put_off.swap(put_off_);
  }
  if (put_off.empty()) return;
  BiasedGuard guard(lock_);
  for (const std::uint32_t number : put_off) {
    if (const auto found = members_.find(number); found != members_.end()) {
      found->second.queue_pair->ExpectSleep();
    }
  }
}

std::vector<Interest> ArmForSleep(std::span<SoftQueuePair* const> queue_pairs, Sleeper sleeper) {
  bool barrier = false;
  for (SoftQueuePair* queue_pair : queue_pairs) barrier |= queue_pair->Arm();
  barrier = barrier && GlobalBarrier();
  std::vector<Interest> interests;
  interests.reserve(queue_pairs.size());
  for (SoftQueuePair* queue_pair : queue_pairs) interests.push_back(queue_pair->Settle(sleeper, barrier));
  return interests;
}

}  // namespace nd::provider::soft
