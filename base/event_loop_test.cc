// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/fd_lane.h"
#include "base/os/readiness.h"
#include "base/os/socket.h"

namespace nd {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(EventLoop, TimersRunInOrderAndCanBeCancelledByEachOther) {
  SkippingClock clock;
  EventLoop loop(clock);
  std::string trace;
  const Time start = clock.Now();
  loop.At(start + hours(2), [&] { trace += "b"; });
  EventLoop::TimerId never{};
  loop.At(start + hours(1), [&] {
    trace += "a";
    loop.Cancel(never);
  });
  never = loop.At(start + hours(2), [&] { trace += "!"; });
  loop.At(start + hours(2), [&] { trace += "c"; });
  loop.RunOnce(Duration::zero());
  EXPECT_EQ(trace, "");
  clock.Skip(hours(3));
  loop.RunOnce(Duration::zero());
  EXPECT_EQ(trace, "abc");
}

TEST(EventLoop, RemovedDescriptorIsNotCalledInTheSameRound) {
  SystemClock clock;
  EventLoop loop(clock);
  UniqueFd a, b, c, d;
  ASSERT_TRUE(MakeSeqpacketPair(&a, &b).ok());
  ASSERT_TRUE(MakeSeqpacketPair(&c, &d).ok());
  int calls = 0;
  const auto once = [&](std::uint32_t) {
    ++calls;
    loop.Remove(b.get());
    loop.Remove(d.get());
  };
  ASSERT_TRUE(loop.Add(b.get(), os::kReadable, once));
  ASSERT_TRUE(loop.Add(d.get(), os::kReadable, once));
  ASSERT_EQ(os::Send(a.get(), "x", 1), 1);
  ASSERT_EQ(os::Send(c.get(), "x", 1), 1);
  loop.RunOnce(hours(1));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(loop.Add(-1, os::kReadable, once));
}

// Two descriptors are ready in one round. The first callback closes the other descriptor and adds a new one
// that gets the same number; the event of the closed descriptor must not reach the new one.
TEST(EventLoop, EventOfAClosedDescriptorDoesNotReachANewOneWithTheSameNumber) {
  SystemClock clock;
  EventLoop loop(clock);
  UniqueFd near[2], far[2], new_near, new_far;
  ASSERT_TRUE(MakeSeqpacketPair(&near[0], &far[0]).ok());
  ASSERT_TRUE(MakeSeqpacketPair(&near[1], &far[1]).ok());
  int calls = 0, calls_of_new = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(loop.Add(near[i].get(), os::kReadable, [&, i](std::uint32_t) {
      ++calls;
      loop.Remove(near[i].get());
      UniqueFd& other = near[1 - i];
      const int number = other.get();
      loop.Remove(number);
      other.reset();
      ASSERT_TRUE(MakeSeqpacketPair(&new_near, &new_far).ok());
      ASSERT_EQ(new_near.get(), number);
      ASSERT_TRUE(loop.Add(number, os::kReadable, [&](std::uint32_t) { ++calls_of_new; }));
      loop.Modify(number, os::kReadable | os::kPeerFinished);
    }));
    ASSERT_EQ(os::Send(far[i].get(), "x", 1), 1);
  }
  loop.RunOnce(hours(1));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(calls_of_new, 0);
  // After a slow callback the event of the closed one still waits for its turn, and a round with such work
  // waits for nothing.
  loop.RunOnce(Duration::zero());
  EXPECT_EQ(calls_of_new, 0);
  // The new descriptor receives its own events.
  ASSERT_EQ(os::Send(new_far.get(), "x", 1), 1);
  loop.RunOnce(hours(1));
  EXPECT_EQ(calls_of_new, 1);
}

TEST(EventLoop, PostsFromOtherThreadsKeepTheirOrder) {
  SystemClock clock;
  EventLoop loop(clock);
  int next = 0;
  bool ordered = true;
  std::thread poster([&] {
    for (int i = 0; i < 10000; ++i) {
      loop.Post([&, i] { ordered = ordered && next++ == i; });
    }
    loop.Post([&] { loop.Stop(); });
  });
  loop.Run();
  poster.join();
  EXPECT_TRUE(ordered);
  EXPECT_EQ(next, 10000);
}

// Five timers are due together, and each takes longer than a round should. Posted functions wait for one of
// them.
TEST(EventLoop, TimersThatAreDueTogetherDoNotFillARound) {
  SkippingClock clock;
  EventLoop loop(clock);
  const Time start = clock.Now();
  std::string trace;
  for (char name = 'a'; name <= 'e'; ++name) {
    loop.At(start, [&, name] {
      trace += name;
      clock.Skip(std::chrono::milliseconds(1));
    });
  }
  const EventLoop::TimerId cancelled = loop.At(start, [&] { trace += "!"; });
  loop.Post([&] { trace += "1"; });
  loop.RunOnce(hours(1));
  ASSERT_EQ(trace, "a1");
  loop.Cancel(cancelled);
  loop.At(start, [&] { trace += "z"; });  // Due before them; behind them all the same.
  loop.Post([&] { trace += "2"; });
  for (int round = 0; round < 5; ++round) loop.RunOnce(hours(1));  // No round sleeps.
  EXPECT_EQ(trace, "a1b2cdez");
}

TEST(EventLoop, TimeStandsStillInAPauseOfTheHost) {
  SystemClock clock;
  EventLoop loop(clock);
  std::string trace;
  loop.At(clock.Now() + milliseconds(200), [&] { trace += "a"; });
  const auto never = loop.At(clock.Now() + milliseconds(300), [&] { trace += "!"; });
  const Time before = loop.clock().Now();
  loop.Post([&] {
    std::this_thread::sleep_for(milliseconds(1100));  // Neither a client nor the loop runs.
    EXPECT_LT(loop.clock().Now() - before, milliseconds(1000)) << "for the rest of the round, too";
  });
  loop.RunOnce(Duration::zero());
  loop.RunOnce(Duration::zero());
  EXPECT_EQ(trace, "") << "its client has had no time to answer";
  loop.Cancel(never);
  for (int i = 0; i < 100 && trace.empty(); ++i) loop.RunOnce(milliseconds(50));
  EXPECT_EQ(trace, "a");
  EXPECT_LT(loop.clock().Now(), clock.Now() - milliseconds(1000));
}

TEST(EventLoop, PostedFunctionsDoNotFillARound) {
  SkippingClock clock;
  EventLoop loop(clock);
  UniqueFd near, far;
  ASSERT_TRUE(MakeSeqpacketPair(&near, &far).ok());
  std::string trace;
  ASSERT_TRUE(loop.Add(near.get(), os::kReadable, [&](std::uint32_t) {
    trace += "d";
    loop.Remove(near.get());
  }));
  for (char name = 'a'; name <= 'c'; ++name) {
    loop.Post([&, name] {
      trace += name;
      clock.Skip(std::chrono::milliseconds(1));
    });
  }
  loop.RunOnce(hours(1));
  ASSERT_EQ(trace, "a");
  ASSERT_EQ(os::Send(far.get(), "x", 1), 1);
  loop.Post([&] { trace += "e"; });
  for (int round = 0; round < 3; ++round) loop.RunOnce(hours(1));
  EXPECT_EQ(trace, "adbce");
}

TEST(EventLoop, EachCallbackBeginsAMoment) {
  SystemClock clock;
  EventLoop loop(clock);
  UniqueFd near[2], far[2];
  std::vector<std::uint64_t> moments;
  const auto note = [&] { moments.push_back(loop.moment()); };
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(MakeSeqpacketPair(&near[i], &far[i]).ok());
    ASSERT_TRUE(loop.Add(near[i].get(), os::kReadable, [&, i](std::uint32_t) {
      loop.Remove(near[i].get());
      note();
    }));
    ASSERT_EQ(os::Send(far[i].get(), "x", 1), 1);
    loop.At(clock.Now(), note);
    loop.Post(note);
  }
  loop.Post([&] {
    note();
    loop.NextMoment();
    note();
    note();
  });
  for (int i = 0; i < 10 && moments.size() < 9; ++i) loop.RunOnce(milliseconds(10));
  ASSERT_EQ(moments.size(), 9u);
  EXPECT_EQ(moments[7], moments[8]);
  moments.pop_back();
  EXPECT_TRUE(std::ranges::is_sorted(moments, std::ranges::less_equal())) << "two callbacks share a moment";
}

TEST(EventLoop, RoundsAreCountedByTheirDuration) {
  using Rounds = EventLoop::Rounds;
  Rounds rounds;
  for (const std::int64_t bound : Rounds::kBoundsUs) rounds.Add(std::chrono::microseconds(bound));
  rounds.Add(std::chrono::microseconds(Rounds::kBoundsUs.back() + 1));
  for (std::size_t i = 0; i < rounds.counts.size(); ++i) EXPECT_EQ(rounds.counts[i], 1u) << i;
  SkippingClock clock;
  EventLoop loop(clock);
  const std::chrono::milliseconds took(3);
  loop.Post([&] {
    const auto began = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - began < took) {
    }
  });
  loop.RunOnce(Duration::zero());
  EXPECT_GE(loop.rounds().busy, took);
  // Of one round, none took at most two milliseconds.
  std::uint64_t shorter = 0, all = 0;
  for (std::size_t i = 0; i < loop.rounds().counts.size(); ++i) {
    all += loop.rounds().counts[i];
    if (i < Rounds::kBoundsUs.size() && Rounds::kBoundsUs[i] < 3'000) shorter += loop.rounds().counts[i];
  }
  EXPECT_EQ(all, 1u);
  EXPECT_EQ(shorter, 0u);
}

TEST(EventLoop, CallbackMayPostAndTheLoopDoesNotSleepOnIt) {
  SystemClock clock;
  EventLoop loop(clock);
  int rounds = 0;
  std::function<void()> again = [&] {
    if (++rounds < 3)
      loop.Post(again);
    else
      loop.Stop();
  };
  loop.Post(again);
  loop.Run();
  EXPECT_EQ(rounds, 3);
}

}  // namespace
}  // namespace nd
