// SPDX-License-Identifier: Apache-2.0
// The process's one background thread: serves queue pairs whose application does not poll.
//
// It sleeps in a watch set, after it has polled that for some microseconds where this pays (take_ready.h),
// and is the watcher of duty.h. It keeps of each queue pair the descriptor and the time of the next visit;
// the queue pair's own state says whether it is served or put off.
//
// Thread rule: any thread; no lock of a queue pair is taken while its own mutex is held, and Add, Remove and
// Call may be called under a queue pair's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/os/fork.h"
#include "base/os/wake_event.h"
#include "base/os/watch_set.h"
#include "provider/soft/qp/drive/interest.h"

namespace nd::provider::soft {

class SoftQueuePair;

class ProgressThread {
 public:
  // Starts the thread on first use in this process. Null when the system refuses.
  static ProgressThread* Get();

  // Watches a queue pair's transport for `interest`; returns its id, never 0, or 0 when the kernel refuses.
  // The caller then calls Call(), without the lock of the queue pair.
  std::uint64_t Add(std::weak_ptr<SoftQueuePair> queue_pair, const Interest& interest);
  // Before `fd` is closed.
  void Remove(std::uint64_t id);
  // Visits it soon.
  void Call(std::uint64_t id);
  // Frees memory of a connection that was lost, when no other one was lost for a moment, at the latest a
  // second later. An application that ends takes all its connections with it, and the processors have to tell
  // their peers first.
  void FreeLater(std::shared_ptr<void> memory);

 private:
  struct Entry {
    std::weak_ptr<SoftQueuePair> queue_pair;
    int fd = -1;
    Time next = Time::max();
  };
  ProgressThread() = default;
  bool Start();
  void Run();
  // Visits all of them, with one barrier for those that are armed.
  void Visit(const std::vector<std::uint64_t>& ids);
  void ComeBack(std::uint64_t id, Duration after);
  void Watch(std::uint64_t id, const Interest& interest);
  void Schedule(std::uint64_t id, Entry& entry, Time when);
  Duration TimeToSleep();
  void FreeSome();
  // When the memory that waits longest is freed. The caller holds the mutex.
  Time NextFree() const;

  const os::ForkMark process_;
  os::WatchSet watch_;
  os::WakeEvent wake_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::set<std::pair<Time, std::uint64_t>> timers_;
  std::vector<std::uint64_t> called_;
  std::uint64_t next_id_ = 1;
  std::deque<std::pair<Time, std::shared_ptr<void>>> lost_;  // The memory of lost connections, and when.
};

}  // namespace nd::provider::soft
