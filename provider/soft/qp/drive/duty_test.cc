// SPDX-License-Identifier: Apache-2.0
// Every interleaving of a peer, the progress thread and an application over one shared-memory connection,
// with the real transition table: nobody sleeps for ever while something is left to do.
//
// A step of the model is a section under the queue pair's lock, or what happens between two of them.
#include <gtest/gtest.h>

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "provider/soft/qp/drive/duty.h"
#include "provider/soft/qp/drive/interest.h"

namespace nd::provider::soft {
namespace {

// The peer sends messages, so many together with the posts of the application. The application posts a silent
// Send, a Write that is complete at once but reported behind the Send, and perhaps a Send that is reported.
constexpr int kMessagesAndPosts = 4, kFewPosts = 2, kAllPosts = 3;
// Values of the flag.
constexpr std::uint8_t kForAll = 1, kForRecords = 2;

// A mistake that an implementation can make.
enum class Mistake {
  kNone,
  kSettleForgetsTheTakenDoorbell,
  kReportForgetsTheTakenDoorbell,
  kNoLookAfterArming,
  kNotifyForgetsThosePutOff,
  kThreadDoesNotComeBack,       // The thread puts the queue pair off and does not return by itself.
  kThreadDoesNotComeBackAgain,  // The same when it was put off before.
  kPostAsksForNothing,          // A post does not look whether this side is armed for records alone.
  kPostDoesNotLook,             // It asks for acknowledgements, and does not look at those that are there.
  kPeerRingsForRecords,
  kAttachDoesNotWatch,  // The thread sleeps from the start, and the descriptor is not in its epoll.
  kVainWakeUpDisarms,  // The application was woken for nothing, and the notification is not pending any more.
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
  kArming,   // In Notify: this thread arms, so that the doorbell wakes it.
  kLooking,  // It has armed.
  kAttaching,
};

struct World {
  // The connection.
  std::uint8_t to_publish = 0, unread = 0;  // Messages of the peer; in the ring.
  std::uint8_t doorbells = 0;               // In the socket.
  std::uint8_t flag = 0;                    // Shared: kForAll, kForRecords, or 0: the peer does not ring.
  std::uint8_t must_ring = 0;  // The peer has published or consumed and not yet looked: a value of the flag.
  std::uint8_t sent = 0, consumed = 0;  // Records of this side; those that the peer has consumed.
  // This side.
  Duty duty = Duty::kCalled;
  std::uint8_t armed = 0;  // The flag as this side set it; 0: a doorbell was taken since.
  std::uint8_t posted = 0, acknowledged = 0, reported = 0;
  bool posting = false;  // A post has asked for acknowledgements, and holds the lock.
  bool polled = false;   // Since the thread's last turn.
  Thread thread = Thread::kAsleep;
  bool thread_called = true;  // A call is under way.
  bool thread_timer = false;  // It comes back by itself.
  bool listed = false;        // Notify will call the thread for it.
  bool watches = false;       // The descriptor is in its epoll.
  App app = App::kPolling;
  bool notify_armed = false;   // Notify was called, and no completion came since.
  bool expects_sleep = false;  // As notify_armed, and the application has polled only a few times since.
  bool fired = false;          // The notification is there.
  bool direct = false;         // The descriptor of the application is readable for doorbells too.
  std::uint8_t received = 0;   // By the application.
  std::uint8_t completions = 0;
  std::uint8_t polls_left = 3;  // Without anything: the model ends.

  // All of it in one number.
  std::uint64_t Key() const {
    std::uint64_t key = 0;
    const auto add = [&key](auto value, unsigned bits) {
      if (static_cast<unsigned>(value) >> bits != 0) ADD_FAILURE() << "a field is too small";
      key = key << bits | static_cast<unsigned>(value);
    };
    for (const bool bit : {posting, polled, thread_called, thread_timer, listed, watches, notify_armed,
                           expects_sleep, fired, direct}) {
      add(bit, 1);
    }
    for (const std::uint8_t count :
         {to_publish, unread, flag, must_ring, sent, consumed, armed, posted, acknowledged, reported}) {
      add(count, 2);
    }
    for (const std::uint8_t count : {doorbells, received, completions, polls_left}) add(count, 3);
    add(duty, 3);
    add(thread, 3);
    add(app, 3);
    return key;
  }
};

class Explorer {
 public:
  // `directly`: as drive/direct_policy.h.
  Explorer(Mistake mistake, int posts, bool directly)
      : mistake_(mistake), posts_(posts), messages_(kMessagesAndPosts - posts), directly_(directly) {}

  // The number of states in which every thread sleeps and a message is unread; the search ends at the first.
  int stuck = 0;
  std::size_t states = 0;

  void Run() {
    World start;
    start.to_publish = static_cast<std::uint8_t>(messages_);
    if (directly_) start.polls_left = 1;
    Visit(start);
    // The same with a segment that is made with both sides asleep.
    start.flag = start.armed = kForAll;
    start.thread_called = false;
    start.app = App::kAttaching;
    Visit(start);
    while (!todo_.empty() && stuck == 0) {
      const World world = todo_.back();
      todo_.pop_back();
      Expand(world);
    }
    states = seen_.size();
  }

 private:
  void Visit(const World& world) {
    if (seen_.insert(world.Key()).second) todo_.push_back(world);
  }

  // --- under the queue pair's lock -----------------------------------------------------------------------
  static std::uint8_t Reportable(const World& w) {
    const bool write = w.posted >= 2 && w.acknowledged >= 1;
    return static_cast<std::uint8_t>(write + (w.posted >= 3 && w.acknowledged >= 2));
  }
  // What the application waits for depends on the end of a record of this side.
  static bool Awaits(const World& w) { return w.posted > 1 && w.reported != w.posted - 1; }
  static void Complete(World& w, int count) {
    if (count == 0) return;
    w.completions = static_cast<std::uint8_t>(w.completions + count);
    w.fired = w.fired || w.notify_armed;
    w.notify_armed = w.expects_sleep = false;
  }
  static void Acknowledge(World& w) {
    w.acknowledged = w.consumed;
    const std::uint8_t reportable = Reportable(w);
    Complete(w, reportable - std::exchange(w.reported, reportable));
  }
  static void AskForAcknowledgements(World& w) {
    w.armed = kForAll;
    if (w.flag == kForRecords) w.flag = kForAll;
  }
  void Consume(World& w) const {
    if (w.armed == kForRecords && Awaits(w) && mistake_ != Mistake::kPostAsksForNothing)
      AskForAcknowledgements(w);
    Acknowledge(w);
    Complete(w, std::exchange(w.unread, std::uint8_t{0}));
  }
  static void TakeDoorbells(World& w) {
    if (w.doorbells != 0) w.armed = 0;
    w.doorbells = 0;
  }
  bool ArmedTooLittle(const World& w) const {
    return w.armed == kForRecords && Awaits(w) && mistake_ != Mistake::kPostAsksForNothing;
  }
  void Report(World& w) const {
    if (w.duty != Duty::kWatching) return;
    Interest watched, now;
    watched.read = now.read = true;
    now.runnable = (w.armed == 0 && mistake_ != Mistake::kReportForgetsTheTakenDoorbell) || ArmedTooLittle(w);
    if (!Covers(watched, now) && Step(&w.duty, DutyEvent::kLeftUndone)) w.thread_called = true;
  }

  // After arming.
  bool Runnable(const World& w) const {
    if ((w.armed == 0 && mistake_ != Mistake::kSettleForgetsTheTakenDoorbell) || ArmedTooLittle(w))
      return true;
    const bool acknowledgement = w.armed == kForAll && w.consumed != w.acknowledged;
    return mistake_ != Mistake::kNoLookAfterArming && (w.unread != 0 || acknowledgement);
  }

  void Expand(const World& world) {
    bool moved = false;
    const auto next = [&](auto change) {
      World w = world;
      change(w);
      Visit(w);
      moved = true;
    };
    // The peer publishes a message or consumes one, then reads the flag and may ring.
    if (world.to_publish != 0 && world.must_ring == 0) {
      next([](World& w) {
        --w.to_publish;
        ++w.unread;
        w.must_ring = kForRecords;
      });
    }
    if (world.consumed != world.sent && world.must_ring == 0) {
      next([](World& w) {
        ++w.consumed;
        w.must_ring = kForAll;
      });
    }
    if (world.must_ring != 0) {
      next([&](World& w) {
        const bool record = std::exchange(w.must_ring, std::uint8_t{0}) == kForRecords;
        if (w.flag == 0 || (!record && (w.flag == kForRecords || mistake_ == Mistake::kPeerRingsForRecords)))
          return;
        ++w.doorbells;
        w.flag = 0;
      });
    }
    // The thread runs when it is called, when its time has come, or when its descriptor is readable.
    const bool comes = world.thread_called || world.thread_timer || (world.watches && world.doorbells != 0);
    const auto serve = [this](World& w) {
      Step(&w.duty, DutyEvent::kVisit);
      TakeDoorbells(w);
      Consume(w);
      w.thread = Thread::kServed;
    };
    if (world.thread == Thread::kAsleep && comes && !world.posting) {
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
    if (world.thread == Thread::kListedAgain && !world.posting) {
      next([&](World& w) {
        if (w.expects_sleep) return serve(w);
        w.thread_timer = mistake_ != Mistake::kThreadDoesNotComeBackAgain;
        w.thread = Thread::kAsleep;
      });
    }
    if (world.thread == Thread::kServed && !world.posting) {
      next([](World& w) {
        w.flag = w.armed = Awaits(w) ? kForAll : kForRecords;
        w.thread = Thread::kArmed;
      });
    }
    if (world.thread == Thread::kArmed && !world.posting) {
      next([&](World& w) {
        w.thread = Thread::kAsleep;
        const bool runnable = Runnable(w);
        Step(&w.duty, runnable ? DutyEvent::kGoOn : DutyEvent::kSleep);
        w.thread_timer = w.thread_timer || runnable;
        w.watches = !runnable;
      });
    }
    // The first round, and the decision whether the thread sleeps on.
    if (world.app == App::kAttaching) {
      next([&](World& w) {
        TakeDoorbells(w);
        Consume(w);
        w.watches = mistake_ != Mistake::kAttachDoesNotWatch;
        if (w.armed != 0) {
          Step(&w.duty, DutyEvent::kSleep);
        } else {
          w.thread_called = true;
        }
        w.app = App::kPolling;
      });
    }
    const bool locked = world.thread == Thread::kLeaving || world.thread == Thread::kListed || world.posting;
    // The application posts, perhaps in a thread that never sleeps.
    const auto publish = [&](World& w) {
      if (std::exchange(w.posting, false) && mistake_ != Mistake::kPostDoesNotLook) Acknowledge(w);
      ++w.posted;
      if (w.posted != 2) ++w.sent;
      const std::uint8_t reportable = Reportable(w);  // The Write, when nothing is ahead of it.
      Complete(w, reportable - std::exchange(w.reported, reportable));
      Report(w);
    };
    if (world.posted != posts_ && !locked && world.app != App::kAttaching) {
      next([&](World& w) {
        if (w.posted == 0 || w.armed != kForRecords || mistake_ == Mistake::kPostAsksForNothing) {
          return publish(w);
        }
        AskForAcknowledgements(w);
        w.posting = true;
      });
    }
    if (world.posting) next(publish);
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
        w.notify_armed = !w.fired;
        w.direct = directly_;
        w.expects_sleep = !w.fired && !directly_;
        w.app = w.fired ? App::kNotified : directly_ ? App::kArming : App::kExpected;
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
    if (world.app == App::kArming && !locked) {
      next([](World& w) {
        w.flag = w.armed = Awaits(w) ? kForAll : kForRecords;
        w.app = App::kLooking;
      });
    }
    if (world.app == App::kLooking && !locked) {
      next([&](World& w) {
        Report(w);
        w.app = App::kNotified;
        if (!Runnable(w)) return;
        w.polled = true;
        TakeDoorbells(w);
        Consume(w);
        Report(w);
        w.app = w.fired ? App::kNotified : App::kArming;
      });
    }
    if (world.app == App::kNotified) {
      next([](World& w) { w.app = App::kAsleep; });
    }
    if (world.app == App::kAsleep && (world.fired || (world.direct && world.doorbells != 0))) {
      next([&](World& w) {
        if (w.direct && !locked) {
          w.polled = true;
          TakeDoorbells(w);
          Consume(w);
          Report(w);
        }
        w.app = App::kPolling;
        if (!std::exchange(w.fired, false)) {
          w.direct = false;
          w.notify_armed = w.expects_sleep = mistake_ != Mistake::kVainWakeUpDisarms;
          w.app = App::kExpected;
        }
        w.received = static_cast<std::uint8_t>(w.received + std::exchange(w.completions, 0));
      });
    }
    if (!moved && world.received != messages_ + posts_ - 1) ++stuck;
  }

  const Mistake mistake_;
  const int posts_, messages_;
  const bool directly_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<World> todo_;
};

int Stuck(Mistake mistake, std::size_t* states = nullptr) {
  int stuck = 0;
  for (const int posts : {kFewPosts, kAllPosts}) {
    for (const bool directly : {false, true}) {
      Explorer explorer(mistake, posts, directly);
      explorer.Run();
      if (states != nullptr) *states += explorer.states;
      stuck += explorer.stuck;
    }
  }
  return stuck;
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
  EXPECT_NE(Stuck(Mistake::kPostAsksForNothing), 0);
  EXPECT_NE(Stuck(Mistake::kPostDoesNotLook), 0);
  EXPECT_NE(Stuck(Mistake::kPeerRingsForRecords), 0);
  EXPECT_NE(Stuck(Mistake::kVainWakeUpDisarms), 0);
  EXPECT_NE(Stuck(Mistake::kAttachDoesNotWatch), 0);
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
