// SPDX-License-Identifier: Apache-2.0
#include "base/os/watch_port_win.h"

#include <winternl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/os/afd_win.h"

namespace nd::os {
namespace {

// One for all sets, because a descriptor may be closed while sets of other threads watch it. A thread that
// holds it waits only for callbacks of the thread pool, which do not take it.
std::mutex& WatchMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Events of AfdPollInfo.
constexpr ULONG kAfdReceive = 0x1, kAfdSend = 0x4, kAfdDisconnect = 0x8, kAfdAbort = 0x10, kAfdClosed = 0x20,
                kAfdAccept = 0x80, kAfdConnectFailed = 0x100;
constexpr NTSTATUS kStatusPending = 0x103;

ULONG AfdEvents(std::uint32_t wanted) {
  ULONG events = kAfdAbort | kAfdClosed | kAfdConnectFailed;
  if ((wanted & kReadable) != 0) events |= kAfdReceive | kAfdAccept | kAfdDisconnect;
  if ((wanted & kPeerFinished) != 0) events |= kAfdDisconnect;
  if ((wanted & kWritable) != 0) events |= kAfdSend;
  return events;
}

std::uint32_t ReadyOf(ULONG events, SocketObject::Use use) {
  std::uint32_t ready = 0;
  if ((events & (kAfdReceive | kAfdAccept)) != 0) ready |= kReadable;
  if ((events & kAfdSend) != 0) ready |= kWritable;
  if ((events & kAfdDisconnect) != 0) {
    ready |= kReadable | kPeerFinished;
    if (use == SocketObject::Use::kLocalPair) ready |= kHungUp;
  }
  if ((events & kAfdAbort) != 0) ready |= kReadable | kPeerFinished | kHungUp | kFailed;
  if ((events & kAfdConnectFailed) != 0) ready |= kWritable | kFailed | kHungUp;
  return ready;
}

DWORD WaitLimit(Duration timeout) {
  if (timeout < Duration::zero()) return INFINITE;
  constexpr std::chrono::hours kLongest{1};
  return static_cast<DWORD>(
      std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(timeout, kLongest)).count());
}

// A request that reports the readiness of one descriptor once. A packet of the port names it by its number,
// so that a packet that is late refers to nothing.
struct PortRequest {
  std::uint64_t number = 0;
  int fd = -1;
  bool at_afd = false;
  IO_STATUS_BLOCK io{};
  AfdPollInfo poll{};
  HANDLE port = nullptr;
  HANDLE waits[2] = {};
};

void CALLBACK Post(void* context, BOOLEAN) {
  const auto* request = static_cast<const PortRequest*>(context);
  ::PostQueuedCompletionStatus(request->port, 0, 0, reinterpret_cast<OVERLAPPED*>(request->number));
}

struct Watch {
  Object* object = nullptr;  // CloseDescriptor() runs before this object ends.
  std::uint32_t wanted = 0;
  std::uint64_t tag = 0;
  WatchSet::Until until = WatchSet::Until::kRemoved;
  std::uint64_t request = 0;  // 0: none is outstanding.
};

}  // namespace

// Every member function is called with the mutex held.
struct WatchPort::Parts {
  Handle port, afd;
  std::unordered_map<int, Watch> watches;
  std::unordered_map<std::uint64_t, std::unique_ptr<PortRequest>> requests;
  std::vector<int> to_renew;  // Reported, and watched until they are removed.
  std::uint64_t last_number = 0;

  void Arm(int fd, Watch& watch) {
    auto request = std::make_unique<PortRequest>();
    request->number = watch.request = ++last_number;
    request->fd = fd;
    request->port = port.get();
    PortRequest& made = *request;
    requests.emplace(made.number, std::move(request));
    if (watch.object->kind() == Object::Kind::kSocket) {
      AskAfd(made, static_cast<SocketObject&>(*watch.object), watch.wanted);
    } else {
      WaitForSignals(made, *watch.object, watch.wanted);
    }
  }

  void Disarm(Watch& watch) {
    const auto found = requests.find(std::exchange(watch.request, 0));
    if (found == requests.end()) return;
    if (found->second->at_afd) {
      // The driver writes to the request until its packet arrives.
      ::CancelIoEx(afd.get(), reinterpret_cast<OVERLAPPED*>(&found->second->io));
    } else {
      EndWaits(*found->second);
      requests.erase(found);
    }
  }

  void Renew() {
    for (const int fd : std::exchange(to_renew, {})) {
      const auto found = watches.find(fd);
      if (found != watches.end() && found->second.request == 0) Arm(fd, found->second);
    }
  }

  // The readiness that the packet reports; 0: the packet is of no use any more, and the descriptor is asked
  // again.
  std::uint32_t Reported(std::uint64_t number) {
    const auto found = requests.find(number);
    if (found == requests.end()) return 0;
    const auto watching = watches.find(found->second->fd);
    const bool current = watching != watches.end() && watching->second.request == number;
    if (current) {
      const Watch& watch = watching->second;
      const std::uint32_t ready = ReadinessOf(*found->second, watch) & (watch.wanted | kFailed | kHungUp);
      if (ready != 0) return ready;
    }
    EndWaits(*found->second);
    requests.erase(found);
    if (current) Arm(watching->first, watching->second);
    return 0;
  }

  // Returns true when the packet reports a descriptor.
  bool Report(std::uint64_t number, WatchSet::Ready* out) {
    const std::uint32_t ready = Reported(number);
    if (ready == 0) return false;
    const auto found = requests.find(number);
    const int fd = found->second->fd;
    EndWaits(*found->second);
    requests.erase(found);
    Watch& watch = watches.at(fd);
    watch.request = 0;
    *out = {watch.tag, ready};
    if (watch.until == WatchSet::Until::kRemoved) to_renew.push_back(fd);
    return true;
  }

  // Whether Take() would report a descriptor. The thread pool posts the packet of a signal some time after
  // it. Packets of no use leave the port, because it would stay signalled.
  bool HasReport() {
    for (const auto& [fd, watch] : watches) {
      if (watch.request == 0 || watch.object->kind() == Object::Kind::kSocket) continue;
      if ((watch.object->Ready() & (watch.wanted | kFailed | kHungUp)) != 0) return true;
    }
    OVERLAPPED_ENTRY packet;
    ULONG arrived = 0;
    while (::GetQueuedCompletionStatusEx(port.get(), &packet, 1, &arrived, 0, FALSE) && arrived != 0) {
      if (Reported(reinterpret_cast<std::uint64_t>(packet.lpOverlapped)) == 0) continue;
      ::PostQueuedCompletionStatus(port.get(), 0, 0, packet.lpOverlapped);
      return true;
    }
    return false;
  }

  void Forget(int fd) {
    const auto found = watches.find(fd);
    if (found == watches.end()) return;
    Disarm(found->second);
    auto& by = found->second.object->watched_by;
    if (const auto self = std::ranges::find(by, owner); self != by.end()) by.erase(self);
    watches.erase(found);
  }

  WatchPort* owner = nullptr;

 private:
  void AskAfd(PortRequest& request, const SocketObject& socket, std::uint32_t wanted) {
    request.at_afd = true;
    request.poll = {{}, 1, FALSE, reinterpret_cast<HANDLE>(socket.get()), AfdEvents(wanted), 0};
    request.poll.timeout.QuadPart = INT64_MAX;
    const NTSTATUS status = ::NtDeviceIoControlFile(
        afd.get(), nullptr, nullptr, reinterpret_cast<void*>(request.number), &request.io, kAfdPoll,
        &request.poll, sizeof request.poll, &request.poll, sizeof request.poll);
    if (status == 0 || status == kStatusPending) return;
    // No packet will come from the driver.
    request.poll.count = 1;
    request.poll.events = kAfdAbort;
    request.io.Status = 0;
    Post(&request, FALSE);
  }

  static void WaitForSignals(PortRequest& request, Object& object, std::uint32_t wanted) {
    HANDLE handles[2] = {};
    const int count = object.Signals(wanted, handles);
    if ((object.Ready() & (wanted | kFailed | kHungUp)) != 0) {
      Post(&request, FALSE);
      return;
    }
    for (int i = 0; i < count; ++i) {
      ::RegisterWaitForSingleObject(&request.waits[i], handles[i], Post, &request, INFINITE,
                                    WT_EXECUTEONLYONCE | WT_EXECUTEINWAITTHREAD);
    }
  }

  // Returns when no callback of the request runs or will run.
  static void EndWaits(PortRequest& request) {
    for (HANDLE& wait : request.waits) {
      if (wait != nullptr) ::UnregisterWaitEx(std::exchange(wait, nullptr), INVALID_HANDLE_VALUE);
    }
  }

  static std::uint32_t ReadinessOf(const PortRequest& request, const Watch& watch) {
    if (!request.at_afd) return watch.object->Ready();
    if (request.io.Status != 0 || request.poll.count == 0) return 0;
    return ReadyOf(request.poll.events, static_cast<const SocketObject*>(watch.object)->use());
  }
};

std::shared_ptr<WatchPort> WatchPort::Make() {
  StartWinsock();
  auto parts = std::make_unique<Parts>();
  parts->afd = OpenAfd();
  if (parts->afd) parts->port = Handle(::CreateIoCompletionPort(parts->afd.get(), nullptr, 0, 0));
  if (!parts->port) {
    SetErrno(::GetLastError());
    return nullptr;
  }
  return std::shared_ptr<WatchPort>(new WatchPort(std::move(parts)));
}

WatchPort::WatchPort(std::unique_ptr<Parts> parts) : Object(kKind), parts_(std::move(parts)) {
  parts_->owner = this;
}

WatchPort::~WatchPort() {
  const std::lock_guard lock(WatchMutex());
  while (!parts_->watches.empty()) parts_->Forget(parts_->watches.begin()->first);
  // The driver still writes to cancelled requests.
  while (!parts_->requests.empty()) {
    DWORD bytes;
    ULONG_PTR key;
    OVERLAPPED* number = nullptr;
    if (!::GetQueuedCompletionStatus(parts_->port.get(), &bytes, &key, &number, INFINITE) &&
        number == nullptr)
      break;
    parts_->requests.erase(reinterpret_cast<std::uint64_t>(number));
  }
}

bool WatchPort::Add(int fd, std::uint32_t wanted, std::uint64_t tag, Until until) {
  const std::shared_ptr<Object> object = FindObject(fd);
  if (!object) return false;
  if (object->kind() == Kind::kSection || object->kind() == Kind::kFile || object.get() == this) {
    errno = EPERM;  // Never ready.
    return false;
  }
  const std::lock_guard lock(WatchMutex());
  // Another thread may have closed it: a watch that begins now would refer to an object that ends.
  if (FindObject(fd) != object) {
    errno = EBADF;
    return false;
  }
  const auto [it, added] = parts_->watches.try_emplace(fd);
  if (!added) {
    errno = EEXIST;
    return false;
  }
  object->watched_by.push_back(this);
  it->second = {object.get(), wanted, tag, until, 0};
  parts_->Arm(fd, it->second);
  return true;
}

bool WatchPort::Change(int fd, std::uint32_t wanted, std::uint64_t tag, Until until) {
  const std::lock_guard lock(WatchMutex());
  const auto found = parts_->watches.find(fd);
  if (found == parts_->watches.end()) {
    errno = ENOENT;
    return false;
  }
  Watch& watch = found->second;
  parts_->Disarm(watch);
  watch.wanted = wanted;
  watch.tag = tag;
  watch.until = until;
  parts_->Arm(fd, watch);
  return true;
}

void WatchPort::Remove(int fd) {
  const std::lock_guard lock(WatchMutex());
  parts_->Forget(fd);
}

std::size_t WatchPort::Take(std::span<WatchSet::Ready> out, Duration timeout) {
  {
    const std::lock_guard lock(WatchMutex());
    parts_->Renew();
  }
  const std::size_t most = std::min(out.size(), WatchSet::kMostReady);
  const auto deadline = std::chrono::steady_clock::now() + std::max(timeout, Duration::zero());
  std::size_t count = 0;
  for (;;) {
    OVERLAPPED_ENTRY packets[WatchSet::kMostReady];
    ULONG arrived = 0;
    const Duration left =
        timeout < Duration::zero()
            ? timeout
            : std::max<Duration>(deadline - std::chrono::steady_clock::now(), Duration::zero());
    if (!::GetQueuedCompletionStatusEx(parts_->port.get(), packets, static_cast<ULONG>(most), &arrived,
                                       WaitLimit(left), FALSE)) {
      return 0;
    }
    const std::lock_guard lock(WatchMutex());
    for (ULONG i = 0; i < arrived; ++i) {
      if (parts_->Report(reinterpret_cast<std::uint64_t>(packets[i].lpOverlapped), &out[count])) ++count;
    }
    if (count != 0) return count;
    // Packets of cancelled requests only.
  }
}

std::uint32_t WatchPort::Ready() {
  parts_->Renew();
  return parts_->HasReport() ? kReadable : 0;
}

int WatchPort::Signals(std::uint32_t wanted, HANDLE (&handles)[2]) {
  if ((wanted & kReadable) == 0) return 0;
  parts_->Renew();
  handles[0] = parts_->port.get();
  return 1;
}

std::shared_ptr<Object> CloseDescriptor(int fd) {
  const std::lock_guard lock(WatchMutex());
  std::shared_ptr<Object> object = TakeObject(fd);
  if (!object) return nullptr;
  for (WatchPort* const port : std::vector<WatchPort*>(object->watched_by)) port->parts_->Forget(fd);
  return object;
}

}  // namespace nd::os
