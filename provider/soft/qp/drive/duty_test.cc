// SPDX-License-Identifier: Apache-2.0
// Every interleaving of a peer, the progress thread and an application over one shared-memory connection,
// with the real transition table: nobody sleeps for ever while something is left to do.
//
// A step of the model is a section under the queue pair's lock, or what happens between two of them.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "provider/soft/qp/drive/duty.h"
#include "provider/soft/qp/drive/interest.h"

namespace nd::provider::soft {
namespace {

constexpr int kMessages = 3;

// A mistake that an implementation can make.
enum class Mistake {
  kNone,
  kSettleForgetsTheTakenDoorbell,
  kReportForgetsTheTakenDoorbell,
  kNoLookAfterArming,
  kNotifyForgetsThosePutOff,
  kThreadDoesNotComeBack,       // The thread puts the queue pair off and does not return by itself.
  kThreadDoesNotComeBackAgain,  // The same when it was put off before.
};

enum class Thread : std::uint8_t {
  kAsleep,
  kLeaving,  // Holds the lock: the application polls and does not seem to sleep soon.
  kListed,   // Holds the lock: the queue pair is in the list of those put off.
  // The same without the lock: the queue pair was put off before, and nothing changes.
  kLeavingAgain,
  kListedAgain,
  kServed,
  kArmed,
};
enum class App : std::uint8_t {
  kPolling,
  kExpected,  // In Notify: armed, the list of those put off not yet taken.
  kCalling,   // In Notify: this queue pair was in the list.
  kNotified,
  kAsleep,
};

struct World {
  // The connection.
  std::uint8_t to_publish = kMessages, unread = 0;  // Messages of the peer; in the ring.
  std::uint8_t doorbells = 0;                       // In the socket.
  bool flag = false;                                // Shared: the peer rings when it is set.
  bool must_ring = false;                           // The peer has published and not yet looked at the flag.
  // This side.
  Duty duty = Duty::kCalled;
  bool armed = false;   // No doorbell was taken since Arm.
  bool polled = false;  // Since the thread's last turn.
  Thread thread = Thread::kAsleep;
  bool thread_called = true;  // A call is under way.
  bool thread_timer = false;  // It comes back by itself.
  bool listed = false;        // Notify will call the thread for it.
  bool watches = false;       // The descriptor is in its epoll.
  App app = App::kPolling;
  bool notify_armed = false;   // Notify was called, and no completion came since.
  bool expects_sleep = false;  // As notify_armed, and the application has polled only a few times since.
  bool fired = false;          // The notification is there.
  std::uint8_t received = 0;   // By the application.
  std::uint8_t completions = 0;
  std::uint8_t polls_left = 6;  // Without anything: the model ends.

  auto Key() const {
    std::array<std::uint8_t, 20> key{to_publish,
                                     unread,
                                     doorbells,
                                     flag,
                                     must_ring,
                                     static_cast<std::uint8_t>(duty),
                                     armed,
                                     polled,
                                     static_cast<std::uint8_t>(thread),
                                     thread_called,
                                     thread_timer,
                                     watches,
                                     listed,
                                     static_cast<std::uint8_t>(app),
                                     notify_armed,
                                     expects_sleep,
                                     fired,
                                     received,
                                     completions,
                                     polls_left};
    return std::string(reinterpret_cast<const char*>(key.data()), key.size());
  }
};

class Explorer {
 public:
  explicit Explorer(Mistake mistake) : mistake_(mistake) {}

  // The number of states in which every thread sleeps and a message is unread; the search ends at the first.
  int stuck = 0;
  std::size_t states = 0;

  void Run() {
    Visit(World{});
    while (!todo_.empty() && stuck == 0) {
      const World world = todo_.back();
      todo_.pop_back();
      Expand(world);
    }
    states = seen_.size();
  }

 private:
  void Visit(const World& world) {
    if (seen_.emplace(world.Key(), true).second) todo_.push_back(world);
  }

  // --- under the queue pair's lock -----------------------------------------------------------------------
  static void Consume(World& w) {
    if (w.unread == 0) return;
    w.completions = static_cast<std::uint8_t>(w.completions + w.unread);
    w.unread = 0;
    w.fired = w.fired || w.notify_armed;
    w.notify_armed = w.expects_sleep = false;
  }
  static void TakeDoorbells(World& w) {
    if (w.doorbells != 0) w.armed = false;
    w.doorbells = 0;
  }
  void Report(World& w) const {
    if (w.duty != Duty::kWatching) return;
    Interest watched, now;
    watched.read = now.read = true;
    now.runnable = !w.armed && mistake_ != Mistake::kReportForgetsTheTakenDoorbell;
    if (!Covers(watched, now) && Step(&w.duty, DutyEvent::kLeftUndone)) w.thread_called = true;
  }

  void Expand(const World& world) {
    bool moved = false;
    const auto next = [&](auto change) {
      World w = world;
      change(w);
      Visit(w);
      moved = true;
    };
    // The peer publishes a message, then reads the flag and may ring.
    if (world.to_publish != 0 && !world.must_ring) {
      next([](World& w) {
        --w.to_publish;
        ++w.unread;
        w.must_ring = true;
      });
    }
    if (world.must_ring) {
      next([](World& w) {
        w.must_ring = false;
        if (w.flag) ++w.doorbells;
        w.flag = false;
      });
    }
    // The thread runs when it is called, when its time has come, or when its descriptor is readable.
    const bool comes = world.thread_called || world.thread_timer || (world.watches && world.doorbells != 0);
    const auto serve = [](World& w) {
      Step(&w.duty, DutyEvent::kVisit);
      TakeDoorbells(w);
      Consume(w);
      w.thread = Thread::kServed;
    };
    if (world.thread == Thread::kAsleep && comes) {
      next([&](World& w) {
        w.thread_called = w.thread_timer = w.watches = false;
        const bool again = w.duty == Duty::kPutOff;
        if (std::exchange(w.polled, false) && !w.expects_sleep) {
          w.thread = again ? Thread::kLeavingAgain : Thread::kLeaving;
        } else {
          serve(w);
        }
      });
    }
    if (world.thread == Thread::kLeaving) {
      next([](World& w) {
        w.listed = true;
        w.thread = Thread::kListed;
      });
    }
    if (world.thread == Thread::kListed) {
      next([&](World& w) {
        if (w.expects_sleep) return serve(w);
        Step(&w.duty, DutyEvent::kLeave);
        w.thread_timer = mistake_ != Mistake::kThreadDoesNotComeBack;
        w.thread = Thread::kAsleep;
      });
    }
    if (world.thread == Thread::kLeavingAgain) {
      next([](World& w) {
        w.listed = true;
        w.thread = Thread::kListedAgain;
      });
    }
    if (world.thread == Thread::kListedAgain) {
      next([&](World& w) {
        if (w.expects_sleep) return serve(w);
        w.thread_timer = mistake_ != Mistake::kThreadDoesNotComeBackAgain;
        w.thread = Thread::kAsleep;
      });
    }
    if (world.thread == Thread::kServed) {
      next([](World& w) {
        w.flag = w.armed = true;
        w.thread = Thread::kArmed;
      });
    }
    if (world.thread == Thread::kArmed) {
      next([&](World& w) {
        w.thread = Thread::kAsleep;
        bool runnable = !w.armed && mistake_ != Mistake::kSettleForgetsTheTakenDoorbell;
        if (mistake_ != Mistake::kNoLookAfterArming) runnable = runnable || w.unread != 0;
        Step(&w.duty, runnable ? DutyEvent::kGoOn : DutyEvent::kSleep);
        w.thread_timer = w.thread_timer || runnable;
        w.watches = !runnable;
      });
    }
    const bool locked = world.thread == Thread::kLeaving || world.thread == Thread::kListed;
    // The application polls, with or without a check of the descriptor, and sleeps at some point.
    if ((world.app == App::kPolling || world.app == App::kNotified) && world.polls_left != 0) {
      for (const int kind : {0, 1, 2, 3}) {
        next([&](World& w) {
          --w.polls_left;
          w.polled = true;
          if (locked) return;
          if ((kind & 1) != 0) TakeDoorbells(w);
          if ((kind & 2) != 0) w.expects_sleep = false;  // It has polled too often.
          Consume(w);
          Report(w);
          w.received = static_cast<std::uint8_t>(w.received + std::exchange(w.completions, 0));
        });
      }
    }
    if (world.app == App::kPolling) {
      next([&](World& w) {
        w.fired = w.completions != 0;
        w.notify_armed = w.expects_sleep = !w.fired;
        w.app = w.fired ? App::kNotified : App::kExpected;
      });
    }
    if (world.app == App::kExpected) {
      next([&](World& w) {
        const bool call = std::exchange(w.listed, false) && mistake_ != Mistake::kNotifyForgetsThosePutOff;
        w.app = call ? App::kCalling : App::kNotified;
      });
    }
    if (world.app == App::kCalling && !locked) {
      next([](World& w) {
        if (Step(&w.duty, DutyEvent::kNotify)) w.thread_called = true;
        w.app = App::kNotified;
      });
    }
    if (world.app == App::kNotified) {
      next([](World& w) { w.app = App::kAsleep; });
    }
    if (world.app == App::kAsleep && world.fired) {
      next([](World& w) {
        w.fired = false;
        w.received = static_cast<std::uint8_t>(w.received + std::exchange(w.completions, 0));
        w.app = App::kPolling;
      });
    }
    if (!moved && world.received != kMessages) ++stuck;
  }

  const Mistake mistake_;
  std::unordered_map<std::string, bool> seen_;
  std::vector<World> todo_;
};

int Stuck(Mistake mistake, std::size_t* states = nullptr) {
  Explorer explorer(mistake);
  explorer.Run();
  if (states != nullptr) *states = explorer.states;
  return explorer.stuck;
}

TEST(DutyTest, NobodySleepsForEverInAnyInterleaving) {
  std::size_t states = 0;
  EXPECT_EQ(Stuck(Mistake::kNone, &states), 0);
  EXPECT_GT(states, 10'000u) << "the search has become too small to mean anything";
}

TEST(DutyTest, TheSearchFindsEachMistake) {
  EXPECT_NE(Stuck(Mistake::kSettleForgetsTheTakenDoorbell), 0);
  EXPECT_NE(Stuck(Mistake::kReportForgetsTheTakenDoorbell), 0);
  EXPECT_NE(Stuck(Mistake::kNoLookAfterArming), 0);
  // Notify calls the thread only to be fast. An application that keeps polling after Notify relies on the
  // return of the thread.
  EXPECT_EQ(Stuck(Mistake::kNotifyForgetsThosePutOff), 0);
  EXPECT_NE(Stuck(Mistake::kThreadDoesNotComeBack), 0);
  EXPECT_NE(Stuck(Mistake::kThreadDoesNotComeBackAgain), 0);
}

TEST(DutyTest, ACallIsMadeOnceUntilItIsAnswered) {
  Duty duty = Duty::kNobody;
  EXPECT_FALSE(Step(&duty, DutyEvent::kAttach)) << "who attaches calls by itself";
  EXPECT_FALSE(Step(&duty, DutyEvent::kLeftUndone));
  EXPECT_FALSE(Step(&duty, DutyEvent::kVisit));
  EXPECT_FALSE(Step(&duty, DutyEvent::kLeftUndone)) << "the end of the visit sees it";
  EXPECT_FALSE(Step(&duty, DutyEvent::kSleep));
  EXPECT_TRUE(Step(&duty, DutyEvent::kLeftUndone));
  EXPECT_FALSE(Step(&duty, DutyEvent::kLeftUndone));
  EXPECT_FALSE(Step(&duty, DutyEvent::kLeave));
  EXPECT_EQ(duty, Duty::kPutOff);
  EXPECT_FALSE(Step(&duty, DutyEvent::kLeftUndone)) << "the thread comes back by itself";
  EXPECT_TRUE(Step(&duty, DutyEvent::kNotify));
  EXPECT_FALSE(Step(&duty, DutyEvent::kDetach));
  EXPECT_EQ(duty, Duty::kNobody);
}

TEST(InterestTest, WatchedInterestMustCoverTheRemainingWork) {
  const Interest watched{.fd = 3, .read = true, .deadline = Time(std::chrono::seconds(5))};
  Interest now = watched;
  EXPECT_TRUE(Covers(watched, now));
  now.deadline = Time::max();
  EXPECT_TRUE(Covers(watched, now)) << "to wake too early costs a round";
  now.deadline = Time(std::chrono::seconds(4));
  EXPECT_FALSE(Covers(watched, now));
  for (bool Interest::*bit : {&Interest::write, &Interest::hang_up, &Interest::runnable}) {
    now = watched;
    now.*bit = true;
    EXPECT_FALSE(Covers(watched, now));
  }
}

}  // namespace
}  // namespace nd::provider::soft
