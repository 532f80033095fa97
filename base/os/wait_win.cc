// SPDX-License-Identifier: Apache-2.0
#include "base/os/wait.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/os/watch_port_win.h"

extern "C" BOOLEAN NTAPI RtlDllShutdownInProgress();  // Of ntdll; winternl.h of mingw-w64 lacks it.

namespace nd::os {
namespace {

// A thread keeps its port, because one for each call would cost more than the wait. Not thread_local: the
// library of mingw-w64 frees such variables before it destroys the objects in them.
struct OwnPort {
  const std::shared_ptr<WatchPort> port = WatchPort::Make();
  OwnPort* next = nullptr;
};

// The ports of threads that have ended, for new threads.
struct FreePorts {
  std::mutex mutex;
  OwnPort* first = nullptr;
};
FreePorts& Free() {
  static auto* const ports = new FreePorts;
  return *ports;
}

// At the end of a thread, under a lock of the system; so nothing waits here. When the process ends, the other
// threads are gone, and so are those that held the mutex.
void WINAPI GiveBack(void* own) {
  if (::RtlDllShutdownInProgress() != 0) return;
  const std::lock_guard lock(Free().mutex);
  auto* const port = static_cast<OwnPort*>(own);
  port->next = std::exchange(Free().first, port);
}

OwnPort* TakeFree() {
  const std::lock_guard lock(Free().mutex);
  OwnPort* const port = Free().first;
  if (port != nullptr) Free().first = port->next;
  return port;
}

// Null: the system refuses.
WatchPort* PortOfThisThread() {
  static const DWORD slot = ::FlsAlloc(GiveBack);
  auto* own = static_cast<OwnPort*>(::FlsGetValue(slot));
  if (own == nullptr) {
    own = TakeFree();
    if (own == nullptr) own = new OwnPort;
    if (own->port == nullptr) {
      delete own;
      return nullptr;
    }
    if (::FlsSetValue(slot, own) == 0) {
      GiveBack(own);
      errno = ENOMEM;
      return nullptr;
    }
  }
  return own->port.get();
}

}  // namespace

int Wait(std::span<Watched> entries, Duration timeout) {
  for (Watched& entry : entries) entry.ready = 0;
  WatchPort* const port = PortOfThisThread();
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
