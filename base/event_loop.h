// SPDX-License-Identifier: Apache-2.0
// One thread's loop: descriptors, timers and functions posted from other threads.
//
// Thread rule: everything but Post() and Stop() is called on the loop's thread (or before Run()).
// Callbacks may add and remove anything, including themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/clock.h"

namespace nd {

class EventLoop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(std::uint32_t epoll_events)>;
  enum class TimerId : std::uint64_t {};

  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  const Clock& clock() const;

  // Watches `fd` (not owned) level-triggered for `epoll_events`; Modify changes the set, Remove must
  // come before the descriptor is closed. A callback removed in this round is not called any more.
  // Add fails (false, errno set) when the kernel refuses.
  bool Add(int fd, std::uint32_t epoll_events, FdCallback callback);
  void Modify(int fd, std::uint32_t epoll_events);
  void Remove(int fd);

  // Calls back once at or after `when`. Timers due together run in order of `when`, then creation.
  TimerId At(Time when, Callback callback);
  void Cancel(TimerId timer);  // Unknown or spent ids are ignored.

  // From any thread: runs `callback` on the loop thread, in order of posting.
  void Post(Callback callback);
  // From any thread: Run() returns after the current round.
  void Stop();

  void Run();
  // One round: waits at most `timeout` (negative: until something happens).
  void RunOnce(Duration timeout);

  // The longest time one round spent in callbacks since the last call; for the watchdog and metrics.
  Duration TakeLongestRound();

  // What the loop has done since it was made. On the loop's thread.
  struct Rounds {
    std::uint64_t all = 0, over_10ms = 0, over_100ms = 0, over_1s = 0;
    Duration busy{};  // In callbacks.
  };
  Rounds rounds() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nd
