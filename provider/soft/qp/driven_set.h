// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one completion queue, and which of them a poll looks at.
//
// Polls drive the hot ones in turn. Where there are many, those that stay quiet become cold: they ask to be
// woken and wait in one epoll descriptor, so that polling and sleeping cost what the busy ones cost. Without
// a progress thread, which does what becomes due on a cold one, all stay hot.
//
// Thread rule: any thread. Lock order: this set, then one queue pair.
#pragma once

#include <poll.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "provider/soft/qp/sync.h"
#include "provider/soft/qp/transport.h"

namespace nd::provider::soft {

struct Deferred;
class SoftQueuePair;

class DrivenSet {
 public:
  explicit DrivenSet(bool progress_thread) : may_cool_(progress_thread) {}
  // A queue pair is cold until it is heated: before it has a connection there is nothing to drive.
  void Add(SoftQueuePair* queue_pair);
  void Remove(SoftQueuePair* queue_pair);
  void Heat(std::uint32_t number);
  std::size_t hot() const;

  // A round of some hot ones, or of all and with a look at their descriptors. True when something moved.
  bool Drive(bool look_at_fds);
  // Arms everything for a thread that is going to sleep, and adds what it must watch. True: there is work.
  bool PrepareToSleep(std::vector<pollfd>* fds, Time* deadline);
  // The progress thread puts one off. CallThread: it comes at once for those that it put off.
  void PutOff(std::uint32_t number);
  void CallThread();

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
  bool Watch(Member& member, const SleepInfo& info);
  void MakeHot(Member& member);
  // Both steps for all of them, with one barrier.
  static std::vector<SleepInfo> Arm(std::span<const Hot> some);

  const bool may_cool_;
  mutable SpinLock lock_;
  std::unordered_map<std::uint32_t, Member> members_;  // By number.
  std::vector<Hot> hot_;
  UniqueFd woken_;  // Epoll of the cold ones.
  std::size_t next_ = 0;
  std::uint32_t drives_ = 0;
  std::uint32_t quiet_limit_ = 0;  // Rounds without anything after which one becomes cold.
  bool crowd_ = false;             // More were woken than one poll takes.

  // Not under lock_: whoever polls would spin while the thread that holds it is not on a processor.
  SpinLock put_off_lock_;
  std::unordered_set<std::uint32_t> put_off_;
};

}  // namespace nd::provider::soft
