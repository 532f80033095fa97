// SPDX-License-Identifier: Apache-2.0
#include "base/os/pipe_win.h"

#include <algorithm>
#include <cerrno>

#include "base/os/random.h"
#include "base/os/readiness.h"

namespace nd::os {
namespace {

constexpr DWORD kBuffer = 64 * 1024;
// The end of a read of a thread that has ended may stay unwritten.
constexpr unsigned kLooksBetweenCalls = 64;

Handle MakeEvent(bool set) {
  return Handle(::CreateEventW(nullptr, /*bManualReset=*/TRUE, set, nullptr));
}

bool IsSet(HANDLE event) {
  return ::WaitForSingleObject(event, 0) == WAIT_OBJECT_0;
}

}  // namespace

std::shared_ptr<PipeObject> PipeObject::Make(Handle pipe, Carrier carrier, Handle peer) {
  std::shared_ptr<PipeObject> made(new PipeObject(std::move(pipe), carrier, std::move(peer)));
  made->message_event_ = MakeEvent(false);
  made->read_event_ = MakeEvent(false);
  made->written_event_ = MakeEvent(true);
  if (!made->message_event_ || !made->read_event_ || !made->written_event_) {
    SetErrno(::GetLastError());
    return nullptr;
  }
  return made;
}

PipeObject::~PipeObject() {
  ShutDown();
}

void PipeObject::ShutDown() {
  const std::scoped_lock lock(read_mutex_, write_mutex_);
  if (!pipe_) return;
  // The system writes to these structures until the operations have ended.
  ::CancelIoEx(pipe_.get(), nullptr);
  DWORD bytes;
  if (asking_) ::GetOverlappedResult(pipe_.get(), &asked_, &bytes, TRUE);
  if (!outgoing_.empty()) ::GetOverlappedResult(pipe_.get(), &written_, &bytes, TRUE);
  asking_ = false;
  outgoing_.clear();
  { const Handle closed = std::move(pipe_); }
  ::SetEvent(message_event_.get());
  ::SetEvent(written_event_.get());
}

bool PipeObject::Peek(DWORD* waiting, DWORD* first) const {
  *waiting = *first = 0;
  return pipe_ && ::PeekNamedPipe(pipe_.get(), nullptr, 0, nullptr, waiting, first) != 0;
}

bool PipeObject::Writable() const {
  return IsSet(written_event_.get());
}

bool PipeObject::Send(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::lock_guard lock(write_mutex_);
  if (!pipe_) {
    errno = EPIPE;
    return false;
  }
  if (!Writable()) {
    errno = EAGAIN;
    return false;
  }
  outgoing_.assign(head.begin(), head.end());
  outgoing_.insert(outgoing_.end(), body.begin(), body.end());
  written_ = {};
  written_.hEvent = written_event_.get();
  if (::WriteFile(pipe_.get(), outgoing_.data(), static_cast<DWORD>(outgoing_.size()), nullptr, &written_) !=
          0 ||
      ::GetLastError() == ERROR_IO_PENDING) {
    return true;
  }
  SetErrno(::GetLastError());
  outgoing_.clear();
  ::SetEvent(written_event_.get());
  return false;
}

bool PipeObject::Receive(std::size_t most, std::vector<std::byte>* message, bool* too_long) {
  const std::lock_guard lock(read_mutex_);
  *too_long = false;
  DWORD waiting, first;
  if (!Peek(&waiting, &first)) {
    errno = EPIPE;
    return false;
  }
  if (waiting == 0) {
    errno = EAGAIN;
    return false;
  }
  message->resize(std::min<std::size_t>(first, most));
  OVERLAPPED read{};
  read.hEvent = read_event_.get();
  std::byte rest[1024];
  std::span<std::byte> into(*message);
  // The rest of a longer message is read too, and discarded.
  for (;; into = rest, *too_long = true) {
    DWORD got = 0;
    DWORD error = 0;
    if (::ReadFile(pipe_.get(), into.data(), static_cast<DWORD>(into.size()), nullptr, &read) == 0) {
      error = ::GetLastError();
    }
    if (error == 0 || error == ERROR_IO_PENDING) {
      error = ::GetOverlappedResult(pipe_.get(), &read, &got, TRUE) != 0 ? 0 : ::GetLastError();
    }
    if (error == 0) return true;
    if (error != ERROR_MORE_DATA) {
      SetErrno(error);
      return false;
    }
  }
}

void PipeObject::AskForMessage() {
  DWORD bytes;
  if (!pipe_ || (asking_ && !IsSet(message_event_.get()))) return;
  if (asking_) ::GetOverlappedResult(pipe_.get(), &asked_, &bytes, FALSE);
  asked_ = {};
  asked_.hEvent = message_event_.get();
  static std::byte nothing;
  asking_ =
      ::ReadFile(pipe_.get(), &nothing, 0, nullptr, &asked_) != 0 || ::GetLastError() == ERROR_IO_PENDING;
  if (!asking_) ::SetEvent(message_event_.get());  // There is one already, or the other end is closed.
}

bool PipeObject::MayHaveMessage() {
  const std::lock_guard lock(read_mutex_);
  if (AsksStill()) return ++looks_ % kLooksBetweenCalls == 0;
  AskForMessage();
  return true;
}

void PipeObject::WaitUntilReadable() {
  for (;;) {
    {
      const std::lock_guard lock(read_mutex_);
      DWORD waiting, first;
      if (!Peek(&waiting, &first) || waiting != 0) return;
      AskForMessage();
    }
    ::WaitForSingleObject(message_event_.get(), INFINITE);
  }
}

std::uint32_t PipeObject::Ready() {
  const std::lock_guard lock(read_mutex_);
  DWORD waiting, first;
  const std::uint32_t ready = Writable() ? kWritable : 0;
  if (!Peek(&waiting, &first)) return ready | kReadable | kPeerFinished | kHungUp;
  return waiting != 0 ? ready | kReadable : ready;
}

int PipeObject::Signals(std::uint32_t wanted, HANDLE (&handles)[2]) {
  int count = 0;
  {
    const std::lock_guard lock(read_mutex_);
    DWORD waiting, first;
    // A hang-up is noticed by reading: not while a message waits and no read is wanted.
    if ((wanted & kReadable) != 0 || !Peek(&waiting, &first) || waiting == 0) {
      AskForMessage();
      handles[count++] = message_event_.get();
    }
  }
  if ((wanted & kWritable) != 0) handles[count++] = written_event_.get();
  return count;
}

std::wstring PipeName(const std::string& path) {
  std::wstring name = L"\\\\.\\pipe\\ndbroker";
  wchar_t wide[MAX_PATH] = {};
  if (::GetFullPathNameW(std::wstring(path.begin(), path.end()).c_str(), MAX_PATH, wide, nullptr) >= MAX_PATH)
    return {};
  for (const wchar_t* c = wide; *c != 0; ++c) {
    // A backslash would be a folder. Capital and small letters are the same in paths and in names of pipes.
    name += *c == L'\\' ? L'/' : *c;
  }
  return name;
}

bool MakePipePair(std::shared_ptr<PipeObject>* a, std::shared_ptr<PipeObject>* b) {
  std::byte secret[16];
  FillWithRandom(secret);
  std::wstring name = L"\\\\.\\pipe\\ndbroker-pair-";
  for (const std::byte each : secret) {
    constexpr wchar_t kDigits[] = L"0123456789abcdef";
    name += kDigits[std::to_integer<int>(each) >> 4];
    name += kDigits[std::to_integer<int>(each) & 15];
  }
  Handle server(::CreateNamedPipeW(name.c_str(),
                                   PIPE_ACCESS_DUPLEX | FILE_FLAG_FIRST_PIPE_INSTANCE | FILE_FLAG_OVERLAPPED,
                                   PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_REJECT_REMOTE_CLIENTS, 1,
                                   kBuffer, kBuffer, 0, nullptr));
  Handle client(!server ? nullptr
                        : ::CreateFileW(name.c_str(), GENERIC_READ | GENERIC_WRITE, 0, nullptr, OPEN_EXISTING,
                                        FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_ANONYMOUS,
                                        nullptr));
  DWORD mode = PIPE_READMODE_MESSAGE;
  if (!client || ::SetNamedPipeHandleState(client.get(), &mode, nullptr, nullptr) == 0) {
    SetErrno(::GetLastError());
    return false;
  }
  Handle self(
      ::OpenProcess(PROCESS_DUP_HANDLE | PROCESS_QUERY_LIMITED_INFORMATION, FALSE, ::GetCurrentProcessId()));
  *a = PipeObject::Make(std::move(server), PipeObject::Carrier::kHere, std::move(self));
  *b = PipeObject::Make(std::move(client), PipeObject::Carrier::kThere, {});
  return *a && *b;
}

}  // namespace nd::os
