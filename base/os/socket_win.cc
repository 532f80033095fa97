// SPDX-License-Identifier: Apache-2.0
#include "base/os/socket.h"

#include "base/os/error_text.h"
#include "base/os/pipe_win.h"

#include <aclapi.h>
#include <mstcpip.h>
#include <ws2tcpip.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <vector>

#include "base/fd_lane.h"
#include "base/os/user_win.h"
#include "base/os/wait.h"

namespace nd::os {
namespace {

using Use = SocketObject::Use;

SOCKET SocketOf(int fd) {
  const auto socket = FindAs<SocketObject>(fd);
  return socket ? socket->get() : INVALID_SOCKET;
}

int Failed() {
  SetErrno(static_cast<DWORD>(::WSAGetLastError()));
  return -1;
}

// Non-blocking, as every socket of this program is.
UniqueFd Own(SOCKET socket, Use use) {
  u_long yes = 1;
  if (socket == INVALID_SOCKET || ::ioctlsocket(socket, static_cast<long>(FIONBIO), &yes) != 0) {
    Failed();
    if (socket != INVALID_SOCKET) ::closesocket(socket);
    return {};
  }
  return UniqueFd(PutObject(std::make_shared<SocketObject>(socket, use)));
}

UniqueFd NewTcp(int family, Use use = Use::kNetwork) {
  StartWinsock();
  return Own(::WSASocketW(family, SOCK_STREAM, IPPROTO_TCP, nullptr, 0,
                          WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT),
             use);
}

// A receive has found the end of the stream. Under Wine a poll takes the error of a reset, and the receive
// behind it finds a mere end; polls go on to tell the reset.
bool WasReset(SOCKET socket) {
  WSAPOLLFD state{socket, POLLRDNORM, 0};
  return ::WSAPoll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

void SetOption(int fd, int level, int name, int value) {
  ::setsockopt(SocketOf(fd), level, name, reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool GetOption(int fd, int level, int name, T* value) {
  int size = sizeof *value;
  return ::getsockopt(SocketOf(fd), level, name, reinterpret_cast<char*>(value), &size) == 0;
}

Address AddressOf(int fd, int(WSAAPI* name)(SOCKET, sockaddr*, int*)) {
  sockaddr_storage storage{};
  int size = sizeof storage;
  if (name(SocketOf(fd), reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return Address::FromSockaddr(reinterpret_cast<sockaddr*>(&storage), static_cast<std::size_t>(size));
}

int Milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

UniqueFd ConnectBefore(const sockaddr* to, int size, Time deadline, Use use) {
  UniqueFd fd = NewTcp(to->sa_family, use);
  if (!fd || ::connect(SocketOf(fd.get()), to, size) == 0) return fd;
  Failed();
  if (errno != EAGAIN && errno != EINPROGRESS) return {};
  Watched wait[] = {{fd.get(), kWritable}};
  const int ready =
      Wait(wait, std::max<Duration>(deadline - SystemClock().Now(), std::chrono::milliseconds(1)));
  int error = WSAETIMEDOUT;
  if (ready > 0) GetOption(fd.get(), SOL_SOCKET, SO_ERROR, &error);
  if (error == 0) return fd;
  SetErrno(static_cast<DWORD>(error));
  return {};
}

// Only the system and administrators can give an object to another owner, so the owner has made the pipe.
std::optional<std::uint32_t> OwnerOfPipe(HANDLE pipe) {
  PSID owner = nullptr;
  PSECURITY_DESCRIPTOR descriptor = nullptr;
  const DWORD error = ::GetSecurityInfo(pipe, SE_KERNEL_OBJECT, OWNER_SECURITY_INFORMATION, &owner, nullptr,
                                        nullptr, nullptr, &descriptor);
  if (error != ERROR_SUCCESS) {
    SetErrno(error);
    return std::nullopt;
  }
  const std::uint32_t user = UserOfOwner(owner);
  ::LocalFree(descriptor);
  return user;
}

bool IsPipe(int fd) {
  const auto object = FindObject(fd);
  return object && object->kind() == Object::Kind::kPipe;
}

// The one connection of `listener` that comes from `from`: another process of this host may connect too.
UniqueFd AcceptFrom(int listener, const Address& from, Time deadline) {
  while (SystemClock().Now() < deadline) {
    Watched wait[] = {{listener, kReadable}};
    if (Wait(wait, deadline - SystemClock().Now()) <= 0) break;
    const SOCKET accepted = ::accept(SocketOf(listener), nullptr, nullptr);
    if (accepted == INVALID_SOCKET) continue;
    UniqueFd fd = Own(accepted, Use::kLocalPair);
    if (fd && PeerAddress(fd.get()) == from) return fd;
  }
  errno = ETIMEDOUT;
  return {};
}

}  // namespace

std::size_t LongestSocketPath() {
  return 200;  // The name of a pipe has at most 256 characters.
}

UniqueFd ConnectLocal(const std::string& path, SocketKind /*kind*/, Duration timeout) {
  const std::wstring name = PipeName(path);
  if (path.size() > LongestSocketPath() || name.empty()) {
    errno = ENAMETOOLONG;
    return {};
  }
  const Time deadline = SystemClock().Now() + timeout;
  for (;;) {
    // The broker learns the user by impersonation.
    Handle pipe(::CreateFileW(name.c_str(), kClientOfPipe, 0, nullptr, OPEN_EXISTING,
                              FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IMPERSONATION,
                              nullptr));
    if (pipe) {
      DWORD mode = PIPE_READMODE_MESSAGE;
      ::SetNamedPipeHandleState(pipe.get(), &mode, nullptr, nullptr);
      auto made = PipeObject::Make(std::move(pipe), PipeObject::Carrier::kThere, {});
      return UniqueFd(made ? PutObject(std::move(made)) : -1);
    }
    if (::GetLastError() != ERROR_PIPE_BUSY) {
      SetErrno(::GetLastError());
      return {};
    }
    const Duration left = deadline - SystemClock().Now();
    if (timeout != kPatient && left <= Duration::zero()) {
      errno = EAGAIN;
      return {};
    }
    ::WaitNamedPipeW(name.c_str(), timeout == kPatient ? NMPWAIT_WAIT_FOREVER
                                                       : static_cast<DWORD>(std::max(Milliseconds(left), 1)));
  }
}

Dialled ConnectTcp(const std::string& host, std::uint16_t port, Time deadline) {
  StartWinsock();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int bad = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (bad != 0) return {{}, 0, "the name has no address (Winsock error " + std::to_string(bad) + ")"};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  Dialled dialled;
  for (const addrinfo* to = list; to != nullptr && !dialled.socket; to = to->ai_next) {
    dialled.socket = ConnectBefore(to->ai_addr, static_cast<int>(to->ai_addrlen), deadline, Use::kNetwork);
    if (!dialled.socket) dialled.error = errno;
  }
  if (!dialled.socket) dialled.reason = ErrorText(dialled.error);
  return dialled;
}

UniqueFd ListenTcp(const Address& at, int backlog) {
  sockaddr_storage storage{};
  const auto size = static_cast<int>(at.ToSockaddr(&storage));
  UniqueFd fd = NewTcp(storage.ss_family);
  if (!fd) return fd;
  // A port in TIME_WAIT is taken over without an option. SO_REUSEADDR would share a port that is in use, and
  // without this option another program could share this one.
  SetOption(fd.get(), SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
  if (::bind(SocketOf(fd.get()), reinterpret_cast<const sockaddr*>(&storage), size) != 0 ||
      ::listen(SocketOf(fd.get()), backlog) != 0) {
    Failed();
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

Address LocalAddress(int socket) {
  return AddressOf(socket, ::getsockname);
}

Address PeerAddress(int socket) {
  return AddressOf(socket, ::getpeername);
}

// Of a client: the user of the process that the kernel names, at the time of the accept. Of a broker: the
// owner of the pipe.
std::optional<std::uint32_t> PeerUser(int socket) {
  const auto pipe = FindAs<PipeObject>(socket);
  HANDLE token = nullptr;
  if (pipe && pipe->carrier() == PipeObject::Carrier::kThere) return OwnerOfPipe(pipe->get());
  if (!pipe || pipe->peer() == nullptr || ::OpenProcessToken(pipe->peer(), TOKEN_QUERY, &token) == 0) {
    return std::nullopt;
  }
  const Handle owned(token);
  return UserOfToken(token);
}

std::optional<SocketKind> KindOf(int socket) {
  if (IsPipe(socket)) return SocketKind::kMessages;
  int type = 0;
  if (!GetOption(socket, SOL_SOCKET, SO_TYPE, &type) || type != SOCK_STREAM) return std::nullopt;
  return SocketKind::kStream;
}

// Two ends of a TCP connection over the loopback address: a local socket of Windows has no pairs.
bool MakeStreamPair(UniqueFd* a, UniqueFd* b, bool /*blocking*/) {
  const Time deadline = SystemClock().Now() + std::chrono::seconds(10);
  const UniqueFd listener = ListenTcp(Address::V4({127, 0, 0, 1}, 0), 8);
  if (!listener) return false;
  sockaddr_storage storage{};
  const auto size = static_cast<int>(LocalAddress(listener.get()).ToSockaddr(&storage));
  *a = ConnectBefore(reinterpret_cast<sockaddr*>(&storage), size, deadline, Use::kLocalPair);
  if (!*a) return false;
  *b = AcceptFrom(listener.get(), LocalAddress(a->get()), deadline);
  if (!*b) return false;
  for (const UniqueFd* end : {a, b}) SetOption(end->get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return true;
}

std::ptrdiff_t Send(int socket, const void* bytes, std::size_t size) {
  const Piece piece{static_cast<const std::byte*>(bytes), size};
  return SendPieces(socket, {&piece, 1});
}

std::ptrdiff_t Receive(int socket, void* buffer, std::size_t size) {
  if (IsPipe(socket)) {
    const ReceivedMessage got = ReceiveMessage(socket, {static_cast<std::byte*>(buffer), size});
    if (!got.too_long) return got.size;
    errno = EMSGSIZE;
    return -1;
  }
  const SOCKET from = SocketOf(socket);
  const int got =
      ::recv(from, static_cast<char*>(buffer), static_cast<int>(std::min<std::size_t>(size, INT32_MAX)), 0);
  if (got == 0 && size != 0 && WasReset(from)) {
    errno = ECONNRESET;
    return -1;
  }
  return got >= 0 ? got : Failed();
}

std::ptrdiff_t SendPieces(int socket, std::span<const Piece> pieces) {
  if (IsPipe(socket)) {
    std::vector<std::byte> message;
    for (const Piece& piece : pieces) message.insert(message.end(), piece.data, piece.data + piece.size);
    const Status status = SendWithFds(socket, message, {});
    if (status.ok()) return static_cast<std::ptrdiff_t>(message.size());
    errno = status.code() == StatusCode::kDeviceBusy ? EAGAIN : EPIPE;
    return -1;
  }
  WSABUF buffers[1024];
  const std::size_t count = std::min(pieces.size(), std::size(buffers));
  for (std::size_t i = 0; i < count; ++i) {
    buffers[i] = {static_cast<ULONG>(pieces[i].size),
                  const_cast<char*>(reinterpret_cast<const char*>(pieces[i].data))};
  }
  DWORD sent = 0;
  if (::WSASend(SocketOf(socket), buffers, static_cast<DWORD>(count), &sent, 0, nullptr, nullptr) == 0)
    return sent;
  return Failed();
}

ReceivedMessage ReceiveMessage(int socket, std::span<std::byte> buffer) {
  const auto got = ReceiveWithFds(socket, buffer, /*blocking=*/false);
  if (got.ok()) return {static_cast<std::ptrdiff_t>(got->size), !got->fds.empty(), false};
  if (got.code() == StatusCode::kRemoteError)
    return {static_cast<std::ptrdiff_t>(buffer.size()), false, true};
  if (got.code() == StatusCode::kConnectionDisconnected) return {0, false, false};
  errno = EAGAIN;
  return {-1, false, false};
}

bool MayHaveMessage(int socket) {
  const auto pipe = FindAs<PipeObject>(socket);
  return !pipe || pipe->MayHaveMessage();
}

void ShutDown(int socket, Direction direction) {
  if (const auto pipe = FindAs<PipeObject>(socket))
    return pipe->ShutDown();  // A pipe has no single directions.
  static_assert(static_cast<int>(Direction::kReceive) == SD_RECEIVE &&
                static_cast<int>(Direction::kSend) == SD_SEND &&
                static_cast<int>(Direction::kBoth) == SD_BOTH);
  ::shutdown(SocketOf(socket), static_cast<int>(direction));
}

// Windows has no number of a socket; this one is unique in this process.
std::uint64_t SocketNumber(int socket) {
  const auto object = FindAs<SocketObject>(socket);
  return object ? object->number() : 0;
}

void ResetOnClose(int socket, bool reset) {
  const linger how{static_cast<u_short>(reset ? 1 : 0), 0};
  ::setsockopt(SocketOf(socket), SOL_SOCKET, SO_LINGER, reinterpret_cast<const char*>(&how), sizeof how);
}

void KeepTcpAlive(int socket, Duration idle, Duration unacknowledged) {
  tcp_keepalive how{1, static_cast<ULONG>(Milliseconds(idle)),
                    static_cast<ULONG>(std::max(Milliseconds(idle) / 3, 1000))};
  DWORD bytes = 0;
  ::WSAIoctl(SocketOf(socket), SIO_KEEPALIVE_VALS, &how, sizeof how, nullptr, 0, &bytes, nullptr, nullptr);
  constexpr int kTcpMaxRt = 5;  // TCP_MAXRT: seconds.
  SetOption(socket, IPPROTO_TCP, kTcpMaxRt, std::max(Milliseconds(unacknowledged) / 1000, 1));
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

std::size_t LargestSegment(int socket) {
  constexpr int kTcpMss = 13;
  int size = 0;
  return GetOption(socket, IPPROTO_TCP, kTcpMss, &size) ? static_cast<std::size_t>(std::max(size, 0)) : 0;
}

TcpState StateOfTcp(int socket) {
  char byte;
  const SOCKET from = SocketOf(socket);
  const int got = ::recv(from, &byte, 1, MSG_PEEK);
  if (got == 0) return WasReset(from) ? TcpState::kClosed : TcpState::kPeerFinished;
  if (got > 0 || ::WSAGetLastError() == WSAEWOULDBLOCK) return TcpState::kOther;
  return TcpState::kClosed;
}

}  // namespace nd::os
