// SPDX-License-Identifier: Apache-2.0
// The event loop of one thread: descriptors, timers and functions posted from other threads.
//
// Thread rule: every member except Post() and Stop() is called on the thread of the loop, or before Run().
// A callback may add and remove any registration, its own included.
//
// Each descriptor belongs to an account, mostly a user. While several are ready, the accounts take turns
// (turns.h), so that one with a hundred descriptors delays the others no more than one with one. Due timers,
// descriptors and posted functions get 0.2 ms of a round each; the rest follows in order in the next rounds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/turns.h"

namespace nd {

class EventLoop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(std::uint32_t ready)>;
  enum class TimerId : std::uint64_t {};

  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // The clock of the constructor, which stands still while the host stops this process for a second or
  // longer: nothing is too late because of such a time.
  const Clock& clock() const;

  // Watches `fd` (not owned) level-triggered for `wanted` (bits of os/readiness.h); Modify changes the set,
  // Remove must come before the descriptor is closed. A callback removed in this round is not called any
  // more, and an event of the removed descriptor never reaches a descriptor that was added later with the
  // same number. Add fails (false, errno set) when the system refuses. While other accounts have work a
  // callback may come later than its event; it sees the events of the latest set only.
  bool Add(int fd, std::uint32_t wanted, FdCallback callback, Account account = Account::kCommon);
  void Modify(int fd, std::uint32_t wanted);
  void Remove(int fd);

  // Calls back once at or after `when` of clock(). Timers due together run in order of `when`, then creation.
  TimerId At(Time when, Callback callback);
  void Cancel(TimerId timer);  // Unknown or spent ids are ignored.

  // True when the running callback has had its time and other work waits: it should leave the rest of its
  // work to its next turn.
  bool TurnIsOver() const;

  // Each callback begins a moment, and NextMoment() another one: a callback calls it when it has received
  // further requests. A fact that was looked up in the present moment is as new as every request in hand.
  std::uint64_t moment() const;
  void NextMoment();

  // From any thread: runs `callback` on the loop thread, in order of posting.
  void Post(Callback callback);
  // The same as work of an account: in order among the posts of that account, in turn with other accounts.
  void PostFor(Account account, Callback callback);
  // From any thread: Run() returns after the current round.
  void Stop();

  void Run();
  // One round: waits at most `timeout` (negative: until an event occurs).
  void RunOnce(Duration timeout);

  // The longest time one round spent in callbacks since the last call; for metrics.
  Duration TakeLongestRound();

  // Statistics since the loop was made. On the thread of the loop.
  struct Rounds {
    // A client can make a round at most 5 ms long, so that the bounds are close together around 5 ms.
    static constexpr std::array<std::int64_t, 18> kBoundsUs = {
        100,   250,    500,    1'000,  2'000,  3'000,   4'000,   5'000,     6'000,
        8'000, 10'000, 15'000, 25'000, 50'000, 100'000, 250'000, 1'000'000, 10'000'000};
    // The number of rounds that took at most the bound and more than the bound before it; the last one counts
    // longer rounds.
    std::array<std::uint64_t, kBoundsUs.size() + 1> counts{};
    Duration busy{};  // In callbacks.

    void Add(Duration took);
  };
  Rounds rounds() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd
