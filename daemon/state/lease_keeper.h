// SPDX-License-Identifier: Apache-2.0
// The journal at work in the daemon: its file, the processes it names, and trying again after trouble.
//
// Loop thread, but for Start() before the loop runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "daemon/state/journal.h"

namespace nd::state {

// False for a process that has ended; one that this broker cannot see may come back. Any thread.
bool MayComeBack(const core::Process& holder);

class LeaseKeeper {
 public:
  struct Options {
    std::string directory;
    Duration grace{};  // Zero: nothing is kept.
    std::function<void(bool good, const std::string& line)> tell;
  };
  LeaseKeeper(EventLoop& loop, Options options);
  ~LeaseKeeper();

  // What is to be kept for its former holders: those of adapters that are there, by processes that live.
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
