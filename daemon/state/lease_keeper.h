// SPDX-License-Identifier: Apache-2.0
// The journal in the daemon: its file, the processes it names, and retries after failures.
//
// Loop thread, except for Start(), which runs before the loop.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "daemon/state/journal.h"

namespace nd::state {

// Returns false when the process has ended. A process that this broker cannot see, and a user without a
// process (pid 0), may come back. Any thread.
bool MayComeBack(const core::Process& holder);

class LeaseKeeper {
 public:
  struct Options {
    std::string directory;
    Duration grace{};  // Zero: no lease is kept.
    std::function<void(bool good, const std::string& line)> tell;
  };
  LeaseKeeper(EventLoop& loop, Options options);
  ~LeaseKeeper();

  // The leases to keep for their holders: those of existing adapters and live processes.
  std::vector<core::Lease> Start(const std::function<bool(const std::string& adapter)>& adapter_is_there);
  void Taken(const core::Lease& lease);
  void Freed(const std::string& adapter, const Address& local);
  void Stop();
  Duration grace() const { return options_.grace; }
  JournalState state() const { return journal_.state(); }

 private:
  void ArmRetry();

  EventLoop& loop_;
  const Options options_;
  Journal journal_;
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace nd::state
