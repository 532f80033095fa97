// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one completion queue: which of them a poll looks at, and what a sleeper watches.
//
// A hot queue pair is driven by polls, in turn with the others. Where there are many, those that stay quiet
// become cold: they ask to be woken and wait in one watch set, so that polling and sleeping cost what
// the busy ones cost. Without a progress thread, which does what becomes due on a cold one, all stay hot.
//
// Thread rule: any thread. Lock order: this set, then one queue pair, then the list of those put off.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/os/wait.h"
#include "base/os/watch_set.h"
#include "provider/soft/qp/drive/interest.h"
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {

struct Deferred;
class SoftQueuePair;

// Who is going to sleep until a transport has something to do.
enum class Sleeper { kApplication, kProgressThread };

// Arms all of them for one sleeper, with one barrier, and says what to watch of each.
std::vector<Interest> ArmForSleep(std::span<SoftQueuePair* const> queue_pairs, Sleeper sleeper);

class PollSet {
 public:
  explicit PollSet(bool progress_thread) : may_cool_(progress_thread) {}
  // A queue pair is cold until it is heated: before it has a connection there is nothing to drive.
  void Add(SoftQueuePair* queue_pair);
  void Remove(SoftQueuePair* queue_pair);
  void Heat(std::uint32_t number);
  std::size_t hot() const;

  // A round of some hot ones, or of all and with a look at their descriptors. True when something moved.
  bool Drive(bool look_at_fds);
  // Arms everything for a thread that is going to sleep, and adds what it must watch. True: there is work.
  bool PrepareToSleep(std::vector<os::Watched>* fds, Time* deadline);

  // Notify was called and has not fired: the application is about to sleep. The progress thread is called
  // for the queue pairs that it had put off, and puts no other one off until the application has polled so
  // often that it cannot mean to sleep.
  void ExpectSleep();
  void StopExpectingSleep() { polls_before_sleep_.store(0, std::memory_order_relaxed); }
  // The progress thread's question about a queue pair that was polled since its last turn: the application
  // goes on polling, so leave it alone? Then the next ExpectSleep() calls the thread.
  bool LeaveToPolls(std::uint32_t number);

 private:
  struct Member {
    SoftQueuePair* queue_pair;
    bool hot = false, watched = false;
  };
  struct Hot {
    SoftQueuePair* queue_pair;
    Member* member;
    std::uint32_t quiet = 0;  // Rounds without anything.
  };
  bool DriveWoken(std::vector<Deferred>* deferred);
  void Cool(std::uint32_t quiet);
  bool WatchCold(Member& member, const Interest& interest);
  void MakeHot(Member& member);
  static std::vector<Interest> Arm(std::span<const Hot> some);
  bool CountPollBeforeSleep();

  const bool may_cool_;
  mutable SpinLock lock_;
  std::unordered_map<std::uint32_t, Member> members_;  // By number.
  std::vector<Hot> hot_;
  std::optional<os::WatchSet> woken_;  // Of the cold ones. Absent until there are some.
  std::size_t next_ = 0;
  std::uint32_t drives_ = 0;
  std::uint32_t quiet_limit_ = 0;  // Rounds without anything after which one becomes cold.
  bool crowd_ = false;             // More were woken than one poll takes.

  // Until Notify fires: for how many more polls the application still counts as about to sleep.
  std::atomic<std::uint32_t> polls_before_sleep_{0};
  // Not under lock_: a poller would spin while the thread that holds it is not on a processor.
  SpinLock put_off_lock_;
  std::unordered_set<std::uint32_t> put_off_;
};

}  // namespace nd::provider::soft
