// SPDX-License-Identifier: Apache-2.0
#include "base/os/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/os/socket_option_linux.h"
#include "base/os/wait.h"

namespace nd::os {
namespace {

Address AddressOf(int socket, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (name(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return Address::FromSockaddr(reinterpret_cast<sockaddr*>(&storage), size);
}

int Milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

UniqueFd ConnectBefore(const addrinfo& to, Time deadline) {
  UniqueFd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return {};
  Watched wait[] = {{fd.get(), kWritable}};
  const int ready =
      Wait(wait, std::max<Duration>(deadline - SystemClock().Now(), std::chrono::milliseconds(1)));
  int error = ETIMEDOUT;
  socklen_t size = sizeof error;
  if (ready > 0) ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) return fd;
  errno = error;
  return {};
}

}  // namespace

std::size_t LongestSocketPath() {
  return sizeof(sockaddr_un::sun_path) - 1;
}

UniqueFd ConnectLocal(const std::string& path, SocketKind kind, Duration timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > LongestSocketPath()) {
    errno = ENAMETOOLONG;
    return {};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(
      ::socket(AF_UNIX, (kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const auto limit = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  const timeval connect_limit{limit / 1'000'000, limit % 1'000'000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &connect_limit, sizeof connect_limit);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  const int error = errno;
  fd.reset();
  errno = error;
  return {};
}

Dialled ConnectTcp(const std::string& host, std::uint16_t port, Time deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int bad = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (bad != 0) return {{}, 0, ::gai_strerror(bad)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  Dialled dialled;
  for (const addrinfo* to = list; to != nullptr && !dialled.socket; to = to->ai_next) {
    dialled.socket = ConnectBefore(*to, deadline);
    if (!dialled.socket) dialled.error = errno;
  }
  if (!dialled.socket) dialled.reason = std::strerror(dialled.error);
  return dialled;
}

UniqueFd ListenTcp(const Address& at, int backlog) {
  sockaddr_storage storage{};
  const auto size = static_cast<socklen_t>(at.ToSockaddr(&storage));
  UniqueFd fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0 ||
      ::listen(fd.get(), backlog) != 0) {
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

std::optional<std::uint32_t> PeerUser(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer.uid;
}

std::optional<SocketKind> KindOf(int socket) {
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return std::nullopt;
  if (type == SOCK_STREAM) return SocketKind::kStream;
  if (type == SOCK_SEQPACKET) return SocketKind::kMessages;
  return std::nullopt;
}

bool MakeStreamPair(UniqueFd* a, UniqueFd* b, bool blocking) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0, ends) != 0)
    return false;
  a->reset(ends[0]);
  b->reset(ends[1]);
  return true;
}

std::ptrdiff_t Send(int socket, const void* bytes, std::size_t size) {
  return ::send(socket, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::ptrdiff_t Receive(int socket, void* buffer, std::size_t size) {
  return ::recv(socket, buffer, size, MSG_DONTWAIT);
}

std::ptrdiff_t SendPieces(int socket, std::span<const Piece> pieces) {
  static_assert(sizeof(Piece) == sizeof(iovec) && offsetof(Piece, data) == offsetof(iovec, iov_base) &&
                offsetof(Piece, size) == offsetof(iovec, iov_len));
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(reinterpret_cast<const iovec*>(pieces.data()));
  message.msg_iovlen = pieces.size();
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ReceivedMessage ReceiveMessage(int socket, std::span<std::byte> buffer) {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};  // Without room for control data the kernel discards descriptors.
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t size = ::recvmsg(socket, &message, MSG_DONTWAIT);
  return {size, (message.msg_flags & MSG_CTRUNC) != 0, (message.msg_flags & MSG_TRUNC) != 0};
}

// Only a call knows.
bool MayHaveMessage(int) {
  return true;
}

void ShutDown(int socket, Direction direction) {
  static_assert(static_cast<int>(Direction::kReceive) == SHUT_RD &&
                static_cast<int>(Direction::kSend) == SHUT_WR &&
                static_cast<int>(Direction::kBoth) == SHUT_RDWR);
  ::shutdown(socket, static_cast<int>(direction));
}

std::uint64_t SocketNumber(int socket) {
  std::uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  return ::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

void ResetOnClose(int socket, bool reset) {
  const linger how{reset ? 1 : 0, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &how, sizeof how);
}

void KeepTcpAlive(int socket, Duration idle, Duration unacknowledged) {
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, Milliseconds(idle) / 1000);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(Milliseconds(idle) / 3000, 1));
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, Milliseconds(unacknowledged));
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

std::size_t LargestSegment(int socket) {
  int size = 0;
  socklen_t length = sizeof size;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &size, &length) != 0) return 0;
  return static_cast<std::size_t>(std::max(size, 0));
}

TcpState StateOfTcp(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return TcpState::kOther;
  if (info.tcpi_state == TCP_CLOSE_WAIT) return TcpState::kPeerFinished;
  return info.tcpi_state == TCP_CLOSE ? TcpState::kClosed : TcpState::kOther;
}

}  // namespace nd::os
