// SPDX-License-Identifier: Apache-2.0
// Of the requests that can be completed from user mode on a file that a completion port may be bound to, this
// is the only one that completes in any order, from any thread, and is cancelled at once.
#include "nd-provider/wake_sockets_win.h"

#include <ws2tcpip.h>

#include <mutex>
#include <utility>
#include <vector>

#include "base/os/afd_win.h"

namespace nd::spi {
namespace {

NTSTATUS StartPoll(HANDLE file, HANDLE event, void* port_context, IO_STATUS_BLOCK* status, SOCKET socket,
                   WaitFor what) {
  // Written by the driver at any time, for any request, and never read.
  static os::AfdPollInfo answer;
  os::AfdPollInfo question{};
  question.timeout.QuadPart = INT64_MAX;
  question.count = 1;
  question.socket = reinterpret_cast<HANDLE>(socket);
  question.events = static_cast<ULONG>(what);
  return ::NtDeviceIoControlFile(file, event, nullptr, port_context, status, os::kAfdPoll, &question,
                                 sizeof question, &answer, sizeof answer);
}

struct Pool {
  std::mutex mutex;
  std::vector<std::shared_ptr<WakeSockets>> idle;
};
Pool& ThePool() {
  static auto* const pool = new Pool;  // Never destroyed: threads of the library use it late.
  return *pool;
}

bool BindToLoopback(SOCKET socket, sockaddr_in* name) {
  const BOOL exclusive = TRUE;
  ::setsockopt(socket, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, reinterpret_cast<const char*>(&exclusive),
               sizeof exclusive);
  *name = {};
  name->sin_family = AF_INET;
  name->sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  int length = sizeof *name;
  return ::bind(socket, reinterpret_cast<const sockaddr*>(name), length) == 0 &&
         ::getsockname(socket, reinterpret_cast<sockaddr*>(name), &length) == 0;
}

}  // namespace

os::Handle OpenWaitFile() {
  os::StartWinsock();
  return os::OpenAfd();
}

std::shared_ptr<WakeSockets> WakeSockets::Take() {
  Pool& pool = ThePool();
  {
    std::lock_guard lock(pool.mutex);
    if (!pool.idle.empty()) {
      auto sockets = std::move(pool.idle.back());
      pool.idle.pop_back();
      return sockets;
    }
  }
  os::StartWinsock();
  std::shared_ptr<WakeSockets> made(new WakeSockets);
  return made->Make() ? made : nullptr;
}

bool WakeSockets::Make() {
  constexpr DWORD kFlags = WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT;
  waiting_ = ::WSASocketW(AF_INET, SOCK_DGRAM, 0, nullptr, 0, kFlags);
  waking_ = ::WSASocketW(AF_INET, SOCK_DGRAM, 0, nullptr, 0, kFlags);
  if (waiting_ == INVALID_SOCKET || waking_ == INVALID_SOCKET) return false;
  sockaddr_in waiting{}, waking{};
  u_long non_blocking = 1;
  if (!BindToLoopback(waiting_, &waiting) || !BindToLoopback(waking_, &waking) ||
      ::connect(waiting_, reinterpret_cast<const sockaddr*>(&waking), sizeof waking) != 0 ||
      ::connect(waking_, reinterpret_cast<const sockaddr*>(&waiting), sizeof waiting) != 0 ||
      ::ioctlsocket(waiting_, FIONBIO, &non_blocking) != 0) {
    return false;
  }
  Drain();  // Before it was connected, any process of the host could send to it.
  return true;
}

WakeSockets::~WakeSockets() {
  if (waiting_ != INVALID_SOCKET) ::closesocket(waiting_);
  if (waking_ != INVALID_SOCKET) ::closesocket(waking_);
}

NTSTATUS WakeSockets::Start(HANDLE file, OVERLAPPED* overlapped, WaitFor what) const {
  const bool quiet = (reinterpret_cast<ULONG_PTR>(overlapped->hEvent) & 1) != 0;
  const HANDLE event = EventOf(*overlapped);
  if (event != nullptr) ::ResetEvent(event);
  overlapped->Internal = static_cast<ULONG_PTR>(kStatusPending);
  return StartPoll(file, event, quiet ? nullptr : overlapped,
                   reinterpret_cast<IO_STATUS_BLOCK*>(&overlapped->Internal), waiting_, what);
}

bool WakeSockets::Wake() const {
  return ::send(waking_, "x", 1, 0) == 1;
}

void WakeSockets::Drain() const {
  char byte;
  while (::recv(waiting_, &byte, 1, 0) >= 0) {
  }
}

// A second request for the same socket completes after the first.
void WakeSockets::AwaitDriver() const {
  const os::Handle file = OpenWaitFile();
  const os::Handle event(::CreateEventW(nullptr, TRUE, FALSE, nullptr));
  if (!file || !event) return;
  IO_STATUS_BLOCK status{};
  if (StartPoll(file.get(), event.get(), nullptr, &status, waiting_, WaitFor::kReadable) == kStatusPending) {
    ::WaitForSingleObject(event.get(), INFINITE);
  }
}

void WakeSockets::Give(std::shared_ptr<WakeSockets> sockets, Use last) {
  if (last == Use::kWoken) sockets->AwaitDriver();
  if (last != Use::kIdle) sockets->Drain();
  Pool& pool = ThePool();
  std::lock_guard lock(pool.mutex);
  pool.idle.push_back(std::move(sockets));
}

}  // namespace nd::spi
