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
// The most quiet rounds before a queue pair cools. When more queue pairs are woken than one poll visits, all
// are busy and the limit grows up to this.
constexpr std::uint32_t kMostQuiet = 16384;
// With more hot ones their peers are asked to announce. Polling fewer takes less time than announcements:
// with 32 connections a round trip takes 1.3 us without and 1.5 us with them, with 64 1.8 and 1.3 us
// (many_bench).
constexpr std::size_t kMostWithoutAsking = 48;
// So many stay hot, because a record of a hot one is found at once and not behind its announcement.
constexpr std::size_t kNeverRest = 4;
// Of the resting ones each in its turn is polled after so many polls, for the end of a process, which
// announces nothing, and for an announcement that another process has cleared.
constexpr std::uint32_t kPollsBetweenLooks = 1024;
// Polls that find something among the hot ones do not read the announcements more often than this.
constexpr std::uint32_t kPollsWithoutReading = 8;

bool DriveOne(SoftQueuePair& queue_pair, bool look_at_fd, std::vector<Deferred>* deferred) {
  Deferred later;
  const bool moved = queue_pair.Drive(look_at_fd, &later);
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
  SetRests(found->second, Rests::kNever);
  if (found->second.place != kNoPlace) by_place_[found->second.place] = nullptr;
  members_.erase(found);
}

void PollSet::MakeHot(Member& member) {
  if (member.hot) return;
  member.hot = true;
  SetRests(member, Rests::kNever);
  hot_.push_back({member.queue_pair, &member, member.queue_pair->poll_cost()});
  many_ = many_ || hot_.size() > kMostWithoutAsking;
}

void PollSet::SetRests(Member& member, Rests rests) {
  resting_ += (rests == Rests::kAnnounced) - (member.rests == Rests::kAnnounced);
  by_watching_ += (rests == Rests::kByWatching) - (member.rests == Rests::kByWatching);
  member.rests = rests;
  if (rests == Rests::kNever) member.queue_pair->Wake();
}

bool PollSet::AskToAnnounce(Member& member) {
  if (!ready_) ready_ = ReadyPage::Create();
  const auto free = std::ranges::find(by_place_, nullptr);
  const auto place = static_cast<std::uint32_t>(free - by_place_.begin());
  if (!ready_ || place == ReadyPage::kPlaces || !member.queue_pair->AskToAnnounce(*ready_, place))
    return false;
  if (free == by_place_.end()) by_place_.push_back(nullptr);
  by_place_[place] = &member;
  member.place = place;
  return true;
}

bool PollSet::MayRest(Member& member) {
  if (member.place != kNoPlace) return member.queue_pair->Rest();
  // Below the limit too, so that not only the first of many are asked.
  if (hot_.size() > kMostWithoutAsking / 2) AskToAnnounce(member);
  return false;
}

void PollSet::RestVisited() {
  Hot& hot = hot_[next_ - 1];
  Member& member = *hot.member;
  // One poll asks one peer, because that is a call of the system.
  const std::uint32_t polls = polls_.load(std::memory_order_relaxed);
  if (member.place == kNoPlace && std::exchange(asked_, polls) == polls) return;
  hot.rest_at = hot.quiet + kLeastQuiet;
  if (hot.cost != kCostOfMemory || hot_.size() <= kNeverRest || !MayRest(member)) return;
  member.hot = false;
  SetRests(member, Rests::kAnnounced);
  hot = hot_.back();
  hot_.pop_back();
  --next_;
}

bool PollSet::ReadAnnouncements() {
  unread_ = 0;
  const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
  polls_.store(polls, std::memory_order_relaxed);
  const std::size_t first = hot_.size();
  ready_->Take(by_place_.size(), [this](std::uint32_t place) {
    if (place < by_place_.size() && by_place_[place] != nullptr) MakeHot(*by_place_[place]);
  });
  if (polls % kPollsBetweenLooks == 0 && !by_place_.empty()) [[unlikely]] {
    Member* const member = by_place_[looked_++ % by_place_.size()];
    if (member != nullptr && !member->hot) {
      member->queue_pair->LookSoon();
      MakeHot(*member);
    }
  }
  if (hot_.size() == first) return false;
  next_ = first;
  return true;
}

void PollSet::HeatResting() {
  if (resting_ == 0) return;
  for (Member* member : by_place_)
    if (member != nullptr && member->rests == Rests::kAnnounced) MakeHot(*member);
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
  return FewInMemoryLocked();
}

bool PollSet::FewInMemoryLocked() const {
  return !hot_.empty() && hot_.size() == members_.size() && hot_.size() <= kDrivenPerPoll &&
         std::ranges::all_of(hot_, [](const Hot& hot) { return hot.cost == kCostOfMemory; });
}

[[gnu::always_inline]] inline bool PollSet::PollHot(LentSpan* lent, Deferred* deferred) {
  std::uint32_t spent = 0;
  for (std::size_t left = hot_.size(); left != 0; --left) {
    if (spent >= budget_) [[unlikely]] {
      CoolSometimes();
      return false;
    }
    if (next_ >= hot_.size()) next_ = 0;
    Hot& hot = hot_[next_++];
    const bool moved = hot.queue_pair->Poll(lent, deferred);
    hot.Count(moved);
    if (moved || *deferred) return moved;
    spent += hot.cost;
    if (many_ && hot.quiet >= hot.rest_at) [[unlikely]]
      RestVisited();
  }
  return false;
}

bool PollSet::PollAnnounced(LentSpan* lent, Deferred* deferred) {
  return ReadAnnouncements() && PollHot(lent, deferred);
}

bool PollSet::Poll(LentSpan* lent) {
  if (polls_before_sleep_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    CountPollBeforeSleep();
  // Another thread is driving this set, so waiting for it would gain nothing.
  if (!lock_.try_lock()) return false;
  if (by_watching_ != 0) [[unlikely]]
    return PollWithCold(lent);
  Deferred deferred;
  bool moved = PollHot(lent, &deferred);
  // Behind the hot ones, whose records need not wait until their announcement has come too.
  if (ready_) [[unlikely]] {
    if (!moved && !deferred) {
      moved = PollAnnounced(lent, &deferred);
    } else if (++unread_ >= kPollsWithoutReading) {
      ReadAnnouncements();
    }
  }
  lock_.unlock();
  if (deferred) [[unlikely]]
    deferred.Run();
  return moved;
}

bool PollSet::PollWithCold(LentSpan* lent) {
  std::vector<Deferred> deferred;
  if (ready_) ReadAnnouncements();
  bool moved = DriveWoken(&deferred);
  if (Deferred later; !moved) {
    moved = PollHot(lent, &later);
    deferred.push_back(std::move(later));
  }
  lock_.unlock();
  for (Deferred& later : deferred) later.Run();
  return moved;
}

bool PollSet::DriveAll(bool look_at_fds) {
  CountPollBeforeSleep();
  if (!lock_.try_lock()) return false;  // As in Poll().
  std::vector<Deferred> deferred;
  if (ready_) ReadAnnouncements();
  bool moved = woken_ && hot_.size() < members_.size() && DriveWoken(&deferred);
  for (Hot& hot : hot_) {
    const bool it_moved = DriveOne(*hot.queue_pair, look_at_fds, &deferred);
    hot.Count(it_moved);
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
    moved |= DriveOne(*found->second.queue_pair, true, deferred);
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
    hot->Count(true);
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
  SetRests(member,
           member.place != kNoPlace && member.queue_pair->Rest() ? Rests::kArmed : Rests::kByWatching);
  // A queue pair has one connection in its life, and so one descriptor.
  const auto watch = member.watched ? &os::WatchSet::Change : &os::WatchSet::Add;
  const bool watches = (*woken_.*watch)(interest.fd, interest.wanted(), member.queue_pair->number(),
                                        os::WatchSet::Until::kReported);
  member.watched = member.watched || watches;
  if (!watches) SetRests(member, Rests::kNever);
  return watches;
}

bool PollSet::PrepareToSleep(Sleeper sleeper, std::vector<os::Watched>* fds, Time* deadline) {
  BiasedGuard guard(lock_);
  HeatResting();
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

std::size_t PollSet::SleepOnWords(std::span<os::SleptOn> words) {
  BiasedGuard guard(lock_);
  if (!FewInMemoryLocked() || hot_.size() > words.size()) return 0;
  for (std::size_t i = 0; i < hot_.size(); ++i) {
    if (hot_[i].queue_pair->SleepOnWord(&words[i])) continue;
    while (i > 0) hot_[--i].queue_pair->LeaveWord();
    return 0;
  }
  return hot_.size();
}

bool PollSet::LeaveWords() {
  BiasedGuard guard(lock_);
  bool woken = false;
  for (Hot& hot : hot_) woken |= hot.queue_pair->LeaveWord();
  return woken;
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
  bool unordered = false;
  for (SoftQueuePair* queue_pair : queue_pairs) unordered |= queue_pair->Arm();
  const bool ordered = !unordered || GlobalBarrier();
  std::vector<Interest> interests;
  interests.reserve(queue_pairs.size());
  for (SoftQueuePair* queue_pair : queue_pairs) interests.push_back(queue_pair->Settle(sleeper, ordered));
  return interests;
}

}  // namespace nd::provider::soft
