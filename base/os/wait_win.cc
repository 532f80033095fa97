// SPDX-License-Identifier: Apache-2.0
#include "base/os/wait.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/os/watch_port_win.h"

namespace nd::os {

int Wait(std::span<Watched> entries, Duration timeout) {
  for (Watched& entry : entries) entry.ready = 0;
  // Kept, because a completion port for each call would cost more than the wait.
  thread_local const std::shared_ptr<WatchPort> port = WatchPort::Make();
  if (!port) return -1;
  std::vector<int> added;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].fd < 0) continue;
    if (port->Add(entries[i].fd, entries[i].wanted, i, WatchSet::Until::kReported)) {
      added.push_back(entries[i].fd);
    } else {
      entries[i].ready = kFailed;  // No descriptor has this number.
      timeout = Duration::zero();
    }
  }
  WatchSet::Ready ready[WatchSet::kMostReady];
  const std::size_t count = port->Take(ready, timeout);
  for (std::size_t i = 0; i < count; ++i) entries[ready[i].tag].ready = ready[i].ready;
  for (const int fd : added) port->Remove(fd);
  return static_cast<int>(std::ranges::count_if(entries, [](const Watched& e) { return e.ready != 0; }));
}

}  // namespace nd::os
