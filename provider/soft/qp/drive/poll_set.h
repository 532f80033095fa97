// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one completion queue: which of them a poll looks at, and what a sleeper watches.
//
// A hot queue pair is driven by polls, in turn with the others. Where there are many, quiet ones whose peer
// announces in the ready page of this set rest: a poll reads one page for all of them. Before a thread
// sleeps, and where the peer does not announce, quiet ones become cold: they ask to be woken and wait in one
// watch set, so that polling and sleeping cost what the busy ones cost. Without a progress thread, which does
// what becomes due on a cold one, none becomes cold.
//
// Thread rule: any thread. Lock order: this set, then one queue pair, then the list of those put off.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/os/wait.h"
#include "base/os/watch_set.h"
#include "base/os/word_sleep.h"
#include "provider/soft/qp/biased_lock.h"
#include "provider/soft/qp/drive/interest.h"
#include "provider/soft/qp/drive/ready_page.h"

namespace nd::provider::soft {

class Deferred;
class SoftQueuePair;
struct LentSpan;

// The thread that is about to sleep until a transport has work.
enum class Sleeper {
  kWaiter,     // In Wait.
  kEventLoop,  // The application, which watches descriptors and keeps no time.
  kProgressThread,
};

// Arms all queue pairs for one sleeper, with one barrier, and returns the interest to watch for each.
std::vector<Interest> ArmForSleep(std::span<SoftQueuePair* const> queue_pairs, Sleeper sleeper);

class PollSet {
 public:
  // What an empty poll of one queue pair costs: it reads three words of memory, or asks the kernel.
  static constexpr std::uint32_t kCostOfMemory = 1, kCostOfSocket = 64;

  explicit PollSet(bool progress_thread) : may_cool_(progress_thread) {}
  // Adds a cold queue pair: before it has a connection there is nothing to drive.
  void Add(SoftQueuePair* queue_pair);
  void Remove(SoftQueuePair* queue_pair);
  void Heat(std::uint32_t number);
  std::size_t hot() const;
  // What one poll may spend on hot queue pairs; the next poll goes on where this one stopped, there or behind
  // a queue pair that had something. More of them than one poll can look at become cold.
  void SetBudget(std::uint32_t budget);

  // Drives hot queue pairs until one has moved data. Returns true then. `lent`: may be null.
  bool Poll(LentSpan* lent);
  // Drives all hot queue pairs, and checks their descriptors if `look_at_fds`. Returns true when data moved.
  bool DriveAll(bool look_at_fds = true);
  // True when all queue pairs are hot, few and over shared memory.
  bool FewInMemory() const;
  // Arms every queue pair for a thread that is about to sleep, and adds the descriptors to watch. Returns
  // true when there is work.
  bool PrepareToSleep(Sleeper sleeper, std::vector<os::Watched>* fds, Time* deadline);

  // Behind PrepareToSleep(): where all queue pairs are hot, few and over shared memory, their peers wake
  // words instead of their descriptors from now on. Returns the number of words, which begin at `words`; 0:
  // they do not, or there is work. Else LeaveWords() ends that, and returns true when a peer has woken its
  // word.
  std::size_t SleepOnWords(std::span<os::SleptOn> words);
  bool LeaveWords();

  // Notify was called and has not fired: the application is about to sleep. Calls the progress thread for the
  // queue pairs that it had put off. The thread puts off no other one until the application has polled too
  // often to be about to sleep.
  void ExpectSleep();
  void StopExpectingSleep() { polls_before_sleep_.store(0, std::memory_order_relaxed); }
  // Called by the progress thread for a queue pair that was polled since its last visit. Returns true when
  // the application keeps polling, so that the thread may put the queue pair off. The next ExpectSleep() then
  // calls the thread.
  bool LeaveToPolls(std::uint32_t number);
  // Any thread. Returns true when polls have read the announcements since the call that set *polls.
  bool PolledSince(std::uint32_t* polls) const {
    const std::uint32_t now = polls_.load(std::memory_order_relaxed);
    return std::exchange(*polls, now) != now;
  }

 private:
  // The least number of quiet rounds before a queue pair rests or cools. Cooling and heating again cost some
  // microseconds, as much as so many rounds.
  static constexpr std::uint32_t kLeastQuiet = 16;
  // Of a queue pair that is not hot: how a poll learns that it has to drive it.
  enum class Rests : std::uint8_t {
    kNever,       // Hot, or without a connection.
    kAnnounced,   // By its place in the ready page.
    kArmed,       // The same. It is armed too, for sleepers.
    kByWatching,  // Only the watch set tells.
  };
  struct Member {
    SoftQueuePair* queue_pair;
    bool hot = false, watched = false;
    Rests rests = Rests::kNever;
    std::uint32_t place = kNoPlace;
  };
  static constexpr std::uint32_t kNoPlace = UINT32_MAX, kNever = UINT32_MAX;
  struct Hot {
    SoftQueuePair* queue_pair;
    Member* member;
    std::uint32_t cost = 0;               // Of an empty poll.
    std::uint32_t quiet = 0;              // Rounds without anything.
    std::uint32_t rest_at = kLeastQuiet;  // So many of them until it may rest.

    void Count(bool moved) {
      quiet = moved ? 0 : quiet + 1;
      if (moved) rest_at = kLeastQuiet;
    }
  };
  bool FewInMemoryLocked() const;
  // The next three: with the lock, which the second one releases.
  bool PollHot(LentSpan* lent, Deferred* deferred);
  bool PollWithCold(LentSpan* lent);
  void CoolSometimes();
  bool DriveWoken(std::vector<Deferred>* deferred);
  void Cool(std::uint32_t quiet);
  bool WatchCold(Member& member, const Interest& interest);
  void MakeHot(Member& member);
  void SetRests(Member& member, Rests rests);
  // The queue pair that PollHot() visited last was quiet for long.
  void RestVisited();
  // Its peer announces, or is asked to.
  bool MayRest(Member& member);
  bool AskToAnnounce(Member& member);
  // Makes hot those that were announced, and now and then one other; they are visited first then. Returns
  // false when there are none.
  bool ReadAnnouncements();
  bool PollAnnounced(LentSpan* lent, Deferred* deferred);
  void HeatResting();
  static std::vector<Interest> Arm(std::span<const Hot> some, Sleeper sleeper);
  bool CountPollBeforeSleep();

  const bool may_cool_;
  mutable BiasedLock lock_;
  std::unordered_map<std::uint32_t, Member> members_;  // By number.
  std::vector<Hot> hot_;
  std::optional<os::WatchSet> woken_;  // Watches the cold queue pairs. Absent until there are some.
  std::unique_ptr<ReadyPage> ready_;   // Absent until there are many.
  std::vector<Member*> by_place_;      // Null: the place is free.
  std::size_t resting_ = 0, by_watching_ = 0;
  bool many_ = false;  // There were so many hot ones that the quiet ones rest.
  std::uint32_t looked_ = 0, unread_ = 0;
  std::uint32_t asked_ = kNever;         // The poll that asked a peer last.
  std::atomic<std::uint32_t> polls_{0};  // With a ready page. Written under lock_.
  std::size_t next_ = 0;
  std::uint32_t budget_ = 1024;
  std::uint32_t drives_ = 0;
  std::uint32_t quiet_limit_ = 0;  // Rounds without data after which a queue pair becomes cold.
  bool crowd_ = false;             // More queue pairs were woken than one poll visits.

  // How many more polls the application still counts as about to sleep, until Notify fires.
  std::atomic<std::uint32_t> polls_before_sleep_{0};
  // A lock of its own: a poller would spin on lock_ while its holder is not running.
  SpinLock put_off_lock_;
  std::unordered_set<std::uint32_t> put_off_;
};

}  // namespace nd::provider::soft
