// SPDX-License-Identifier: Apache-2.0
#include "base/os/wait.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/os/watch_port_win.h"

extern "C" BOOLEAN NTAPI RtlDllShutdownInProgress();  // Of ntdll; winternl.h of mingw-w64 lacks it.

namespace nd::os {
namespace {

using HeldPort = std::shared_ptr<WatchPort>;

// The end of a thread, or of the process: then the other threads are gone, and so are those that held locks
// of the port, and nothing is given back.
void WINAPI GiveBack(void* port) {
  if (::RtlDllShutdownInProgress() == 0) delete static_cast<HeldPort*>(port);
}

// Of this thread, because a completion port for each call would cost more than the wait; null: the system
// refuses. Not thread_local: the library of mingw-w64 frees such variables before it destroys the objects in
// them.
WatchPort* OwnPort() {
  static const DWORD slot = ::FlsAlloc(GiveBack);
  auto* port = static_cast<HeldPort*>(::FlsGetValue(slot));
  if (port == nullptr) {
    port = new HeldPort(WatchPort::Make());
    if (::FlsSetValue(slot, port) == 0) {
      delete port;
      errno = ENOMEM;
      return nullptr;
    }
  }
  return port->get();
}

}  // namespace

int Wait(std::span<Watched> entries, Duration timeout) {
  for (Watched& entry : entries) entry.ready = 0;
  WatchPort* const port = OwnPort();
  if (port == nullptr) return -1;
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
