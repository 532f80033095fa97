// SPDX-License-Identifier: Apache-2.0
// Drives the transport from polls, sleepers and the progress thread, under the lock of the queue pair.
// drive/duty.h has the states.
#include <algorithm>

#include "provider/soft/qp/drive/progress_thread.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {
namespace {

constexpr unsigned kRoundsBetweenDeadlines = 16;
// The rounds of one visit of the progress thread, before it serves other queue pairs.
constexpr int kRoundsPerVisit = 16;
constexpr std::uint64_t kLongestSearch = 32;

}  // namespace

Interest SoftQueuePair::CurrentInterest() const {
  Interest now = transport_->interest();
  now.deadline = std::min(now.deadline, disconnect_deadline_);
  return now;
}

bool SoftQueuePair::Round(bool look_at_fd) {
  quiet_.stamp = nullptr;
  if (!transport_ || transport_dead_) return false;
  if (++idle_rounds_ >= kRoundsBetweenLooks) {
    idle_rounds_ = 0;
    look_at_fd = true;
  }
  const bool moved = transport_->Progress(look_at_fd);
  EndIfMemoryGone();
  // While data moves, the deadlines wait for some rounds.
  const bool later = moved && idle_rounds_ % kRoundsBetweenDeadlines != 0;
  return later || transport_dead_ ? moved : CheckDeadlines() || moved;
}

bool SoftQueuePair::CheckDeadlines() {
  const Interest left = transport_->interest();
  if (left.deadline == Time::max() && disconnect_deadline_ == Time::max()) return false;
  const Time now = std::chrono::steady_clock::now();
  if (now >= left.deadline) transport_->OnDeadline(now);
  if (now < disconnect_deadline_) return false;
  disconnect_deadline_ = Time::max();
  transport_dead_ = true;
  if (state_ == State::kDisconnecting) {
    FinishDisconnect({StatusCode::kIoTimeout, "the peer did not answer the goodbye in time"});
  }
  return true;
}

bool SoftQueuePair::Drive(bool look_at_fd, Deferred* deferred) {
  polled_.store(true, std::memory_order_relaxed);
  if (!lock_.try_lock()) return false;
  return DriveLocked(look_at_fd, deferred);
}

bool SoftQueuePair::DriveLocked(bool look_at_fd, Deferred* deferred) {
  const bool moved = Round(look_at_fd);
  lent_ = nullptr;
  ReportUndone();  // The application may not call again.
  LeaveQuiet(deferred);
  FindQuiet();
  if (!NeedsNoPoll()) EndRest();
  lock_.unlock();
  return moved;
}

bool SoftQueuePair::AskToAnnounce(ReadyPage& page, std::uint32_t place) {
  BiasedGuard guard(lock_);
  // A poll of another completion queue would not see the announcement.
  if (receive_cq_ != initiator_cq_ || state_ != State::kConnected || !transport_ || transport_dead_ ||
      ready_ != nullptr || !transport_->AskToAnnounce(page.fd(), place)) {
    return false;
  }
  ready_ = &page;
  ready_place_ = place;
  quiet_.stamp = nullptr;
  ReportUndone();
  return true;
}

bool SoftQueuePair::Rest() {
  BiasedGuard guard(lock_);
  // In this order: whatever the peer did before it began to announce is visible to the second look.
  if (!NeedsNoPoll() || !transport_->PeerAnnounces() || !quiet_.Unchanged()) return false;
  SetCold();
  resting_.store(true, std::memory_order_relaxed);
  return true;
}

void SoftQueuePair::AnnounceToPolls() {
  resting_.store(false, std::memory_order_relaxed);
  ready_->AnnounceHere(ready_place_);
}

void SoftQueuePair::LookSoon() {
  BiasedGuard guard(lock_);
  idle_rounds_ = kRoundsBetweenLooks;
}

bool SoftQueuePair::DriveBlocking(Deferred* deferred) {
  BiasedGuard guard(lock_);
  if (transport_ && !transport_dead_) transport_->OnReceivePosted();
  const bool moved = Round(false);
  ReportUndone();
  Leave(deferred);
  return moved;
}

bool SoftQueuePair::AwaitsReport() const {
  if (state_ != State::kConnected || initiator_.next != initiator_.head ||
      initiator_.head - initiator_.tail > kLongestSearch) {
    return true;
  }
  for (std::uint64_t i = initiator_.tail; i != initiator_.head; ++i) {
    const InitiatorRequest& request = initiator_.at(i);
    if ((request.flags & kOpSilentSuccess) == 0 || request.window || request.bind) return true;
  }
  return false;
}

bool SoftQueuePair::AnnouncementsPolled() {
  if (!resting_.load(std::memory_order_acquire)) return false;
  return receive_cq_->poll_set().PolledSince(&polls_seen_);
}

bool SoftQueuePair::MayLeaveToPolls() {
  return (polled_.exchange(false, std::memory_order_relaxed) || AnnouncementsPolled()) &&
         receive_cq_->poll_set().LeaveToPolls(number_) && initiator_cq_->poll_set().LeaveToPolls(number_);
}

bool SoftQueuePair::Serve(Deferred* deferred) {
  // The application that polls owns the lock, and keeps it.
  const bool was_put_off = put_off_.load(std::memory_order_relaxed);
  if (was_put_off && MayLeaveToPolls()) {
    next_prompt_visits_ = kFewestPromptVisits;
    return false;
  }
  bool moved = false;
  {
    BiasedGuard guard(lock_);
    if (prompt_visits_ > 0) {
      if (polled_.exchange(false, std::memory_order_relaxed)) --prompt_visits_;
    } else if (!was_put_off && MayLeaveToPolls()) {
      Step(&duty_, DutyEvent::kLeave);
      put_off_.store(duty_ == Duty::kPutOff, std::memory_order_relaxed);
      return false;
    }
    put_off_.store(false, std::memory_order_relaxed);
    Step(&duty_, DutyEvent::kVisit);
    QpCounters::Add(counters_->wakeups, 1);
    bool more = true;
    for (int i = 0; i < kRoundsPerVisit && more; ++i) {
      more = Round(true);
      moved |= more;
    }
    if (was_put_off && moved) {
      prompt_visits_ = next_prompt_visits_;
      next_prompt_visits_ = std::min(2 * next_prompt_visits_, kMostPromptVisits);
    }
    Leave(deferred);
  }
  // A cold queue pair with data is polled again from now on.
  if (moved && cold_.exchange(false, std::memory_order_relaxed)) {
    receive_cq_->poll_set().Heat(number_);
    initiator_cq_->poll_set().Heat(number_);
  }
  return true;
}

bool SoftQueuePair::Arm() {
  BiasedGuard guard(lock_);
  return transport_ && !transport_dead_ && transport_->Arm();
}

Interest SoftQueuePair::Settle(Sleeper sleeper, bool ordered) {
  BiasedGuard guard(lock_);
  Interest now;
  if (transport_ && !transport_dead_) {
    now = transport_->Settle(ordered, sleeper != Sleeper::kEventLoop);
    now.deadline = std::min(now.deadline, disconnect_deadline_);
  }
  // Arm may send and may find the end; the next round then frees the transport.
  now.runnable = now.runnable || transport_dead_ || deferred_;
  if (sleeper != Sleeper::kProgressThread) ReportUndone();
  // Without a progress thread every sleeper is the watcher. The report woke a sleeper that armed earlier and
  // does not watch enough.
  if (sleeper == Sleeper::kProgressThread || watch_ == 0) {
    if (!now.runnable) {
      watched_ = now;
      Step(&duty_, DutyEvent::kSleep);
    } else if (sleeper == Sleeper::kProgressThread) {
      Step(&duty_, DutyEvent::kGoOn);
    }
  }
  return now;
}

bool SoftQueuePair::SleepOnWord(os::SleptOn* slept_on) {
  BiasedGuard guard(lock_);
  return transport_ && !transport_dead_ && !deferred_ && transport_->SleepOnWord(slept_on);
}

bool SoftQueuePair::LeaveWord() {
  BiasedGuard guard(lock_);
  const bool woken = transport_ && !transport_dead_ && transport_->LeaveWord();
  if (woken) ReportUndone();  // Another sleeper may have relied on the doorbell.
  return woken;
}

void SoftQueuePair::ReportToWatcher() {
  if (!transport_ || transport_dead_) return;
  if (!Covers(watched_, CurrentInterest()) && Step(&duty_, DutyEvent::kLeftUndone)) CallWatcher();
}

void SoftQueuePair::ExpectSleep() {
  BiasedGuard guard(lock_);
  put_off_.store(false, std::memory_order_relaxed);
  if (Step(&duty_, DutyEvent::kNotify)) CallWatcher();
}

void SoftQueuePair::CallWatcher() {
  if (watch_ == 0) return WakeSleepers();
  if (ProgressThread* progress = ProgressThread::Get()) progress->Call(watch_);
}

void SoftQueuePair::WakeSleepers() {
  receive_cq_->WakeSleepers();
  if (initiator_cq_ != receive_cq_) initiator_cq_->WakeSleepers();
}

}  // namespace nd::provider::soft
