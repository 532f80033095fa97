// SPDX-License-Identifier: Apache-2.0
#include "base/os/pipe_listener_win.h"

#include <cerrno>
#include <utility>

#include "base/os/readiness.h"

namespace nd::os {
namespace {

constexpr DWORD kListenerBuffer = 64 * 1024;

}  // namespace

PipeListener::PipeListener(std::wstring name, Clients clients, Handle connected)
    : Object(kKind),
      name_(std::move(name)),
      access_(clients == Clients::kEveryone ? kClientOfPipe : 0, NewAccess::Inherited::kNo),
      connected_(std::move(connected)) {}

std::shared_ptr<PipeListener> PipeListener::Make(const std::wstring& name, Clients clients) {
  Handle connected(::CreateEventW(nullptr, /*bManualReset=*/TRUE, /*bInitialState=*/FALSE, nullptr));
  std::shared_ptr<PipeListener> made(new PipeListener(name, clients, std::move(connected)));
  if (made->connected_ && made->access_ && made->Offer(/*first=*/true)) return made;
  const DWORD error = ::GetLastError();
  // Each of the two errors means that another process has the name.
  if (error == ERROR_ACCESS_DENIED || error == ERROR_PIPE_BUSY) {
    errno = EADDRINUSE;
  } else {
    SetErrno(error);
  }
  return nullptr;
}

PipeListener::~PipeListener() {
  // The system writes to the structure until the operation has ended.
  DWORD bytes;
  if (next_ && ::CancelIoEx(next_.get(), &connecting_) != 0) {
    ::GetOverlappedResult(next_.get(), &connecting_, &bytes, TRUE);
  }
}

bool PipeListener::Offer(bool first) {
  ::ResetEvent(connected_.get());
  next_ = Handle(::CreateNamedPipeW(
      name_.c_str(), PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | (first ? FILE_FLAG_FIRST_PIPE_INSTANCE : 0u),
      PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_REJECT_REMOTE_CLIENTS, PIPE_UNLIMITED_INSTANCES,
      kListenerBuffer, kListenerBuffer, 0, access_.get()));
  if (!next_) return false;
  connecting_ = {};
  connecting_.hEvent = connected_.get();
  if (::ConnectNamedPipe(next_.get(), &connecting_) != 0 || ::GetLastError() == ERROR_IO_PENDING) return true;
  ::SetEvent(connected_.get());  // A client has connected already, and may have gone again.
  return true;
}

std::shared_ptr<PipeObject> PipeListener::Accept() {
  const std::lock_guard lock(mutex_);
  if (!next_ && !Offer(/*first=*/false)) {
    SetErrno(::GetLastError());
    return nullptr;
  }
  if ((Ready() & kReadable) == 0) {
    errno = EAGAIN;
    return nullptr;
  }
  Handle pipe = std::move(next_);
  // If it fails, the next call tries again.
  Offer(/*first=*/false);
  ULONG number = 0;
  Handle process;
  if (::GetNamedPipeClientProcessId(pipe.get(), &number) != 0) {
    process = Handle(
        ::OpenProcess(PROCESS_DUP_HANDLE | PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, FALSE, number));
  }
  // Afterwards: while the client has its end, no other process gets the number of its process.
  DWORD waiting;
  if (::PeekNamedPipe(pipe.get(), nullptr, 0, nullptr, &waiting, nullptr) == 0) {
    errno = EAGAIN;
    return nullptr;
  }
  const auto carrier = process ? PipeObject::Carrier::kHere : PipeObject::Carrier::kNobody;
  return PipeObject::Make(std::move(pipe), carrier, std::move(process));
}

std::uint32_t PipeListener::Ready() {
  return ::WaitForSingleObject(connected_.get(), 0) == WAIT_OBJECT_0 ? kReadable : 0;
}

int PipeListener::Signals(std::uint32_t wanted, HANDLE (&handles)[2]) {
  if ((wanted & kReadable) == 0) return 0;
  handles[0] = connected_.get();
  return 1;
}

}  // namespace nd::os
