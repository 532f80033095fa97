// SPDX-License-Identifier: Apache-2.0
// The process's one background thread: serves queue pairs whose application does not poll.
//
// It sleeps in epoll. On an event for a queue pair that the application drove itself meanwhile it leaves the
// descriptor alone and looks again a millisecond later, so the two never fight; when the polling stopped, it
// serves and watches again. An application that has called Notify is about to sleep: it is served at once.
// Thread rule: any thread; no lock of a queue pair is taken while its own mutex is held, and Add, Remove and
// Kick may be called under a queue pair's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "provider/soft/qp/queue_pair.h"

namespace nd::provider::soft {

class Progress {
 public:
  // Starts the thread on first use in this process. Null when the kernel gives no epoll or thread.
  static Progress* Get();

  // Watches a queue pair's transport; returns its id, never 0, or 0 when the kernel refuses. Visits it soon.
  std::uint64_t Add(std::weak_ptr<SoftQueuePair> queue_pair, int fd);
  // Before `fd` is closed.
  void Remove(std::uint64_t id);
  // Visits it soon.
  void Kick(std::uint64_t id);

 private:
  struct Entry {
    std::weak_ptr<SoftQueuePair> queue_pair;
    int fd = -1;
    Time next = Time::max();
  };
  Progress() = default;
  bool Start();
  void Run();
  // All together, with one barrier for those that are armed.
  void Visit(const std::vector<std::uint64_t>& ids);
  void Watch(std::uint64_t id, const SoftQueuePair::Visit& visit);
  void Schedule(std::uint64_t id, Entry& entry, Time when);
  int TimeoutMs();

  UniqueFd epoll_, wake_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::set<std::pair<Time, std::uint64_t>> timers_;
  std::vector<std::uint64_t> kicked_;
  std::uint64_t next_id_ = 1;
};

}  // namespace nd::provider::soft
