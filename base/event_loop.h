// SPDX-License-Identifier: Apache-2.0
// The event loop of one thread: descriptors, timers and functions posted from other threads.
//
// Thread rule: every member except Post() and Stop() is called on the thread of the loop, or before Run().
// A callback may add and remove any registration, its own included.
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
  // come before the descriptor is closed. A callback removed in this round is not called any more, and an
  // event of the removed descriptor never reaches a descriptor that was added later with the same number.
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
  // One round: waits at most `timeout` (negative: until an event occurs).
  void RunOnce(Duration timeout);

  // The longest time one round spent in callbacks since the last call; for metrics.
  Duration TakeLongestRound();

  // Statistics since the loop was made. On the thread of the loop.
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
