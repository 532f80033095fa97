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
#include "provider/soft/qp/biased_lock.h"
#include "provider/soft/qp/drive/interest.h"

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
  // Drives all hot queue pairs and checks their descriptors. Returns true when data moved.
  bool DriveAll();
  // True when all queue pairs are hot, few and over shared memory.
  bool FewInMemory() const;
  // Arms every queue pair for a thread that is about to sleep, and adds the descriptors to watch. Returns
  // true when there is work.
  bool PrepareToSleep(Sleeper sleeper, std::vector<os::Watched>* fds, Time* deadline);

  // Notify was called and has not fired: the application is about to sleep. Calls the progress thread for the
  // queue pairs that it had put off. The thread puts off no other one until the application has polled too
  // often to be about to sleep.
  void ExpectSleep();
  void StopExpectingSleep() { polls_before_sleep_.store(0, std::memory_order_relaxed); }
  // Called by the progress thread for a queue pair that was polled since its last visit. Returns true when
  // the application keeps polling, so that the thread may put the queue pair off. The next ExpectSleep() then
  // calls the thread.
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
    std::uint32_t cost = 0;   // Of an empty poll.
  };
  // The next three: with the lock, which the second one releases.
  bool PollHot(LentSpan* lent, Deferred* deferred);
  bool PollWithCold(LentSpan* lent);
  void CoolSometimes();
  bool DriveWoken(std::vector<Deferred>* deferred);
  void Cool(std::uint32_t quiet);
  bool WatchCold(Member& member, const Interest& interest);
  void MakeHot(Member& member);
  static std::vector<Interest> Arm(std::span<const Hot> some, Sleeper sleeper);
  bool CountPollBeforeSleep();

  const bool may_cool_;
  mutable BiasedLock lock_;
  std::unordered_map<std::uint32_t, Member> members_;  // By number.
  std::vector<Hot> hot_;
  std::optional<os::WatchSet> woken_;  // Watches the cold queue pairs. Absent until there are some.
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
