// SPDX-License-Identifier: Apache-2.0
// A listening socket of Windows cannot stop listening, and a socket with SO_REUSEADDR shares its port with
// every program. So a held port is a bound socket that no other socket may share.
#include "provider/soft/cm/tcp_socket.h"

#include "base/os/error_text.h"
#include "base/os/object_win.h"

#include <mstcpip.h>
#include <ws2tcpip.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "base/os/bind.h"
#include "base/os/socket.h"

namespace nd::provider::soft {
namespace {

using os::Bind;

constexpr std::string_view kPlace = "this host";

SOCKET SocketOf(int fd) {
  const auto socket = os::FindAs<os::SocketObject>(fd);
  return socket ? socket->get() : INVALID_SOCKET;
}

void SetInt(int fd, int level, int name, int value) {
  ::setsockopt(SocketOf(fd), level, name, reinterpret_cast<const char*>(&value), sizeof value);
}

bool Listen(int fd) {
  if (::listen(SocketOf(fd), SOMAXCONN) == 0) return true;
  os::SetErrno(static_cast<DWORD>(::WSAGetLastError()));
  return false;
}

}  // namespace

const bool kFlexiblePorts = false;
const bool kHasLowWater = false;

Result<UniqueFd> MakeTcpSocket(Address::Family family) {
  const bool v6 = family == Address::Family::kIpv6;
  os::StartWinsock();
  const SOCKET made = ::WSASocketW(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, IPPROTO_TCP, nullptr, 0,
                                   WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
  UniqueFd fd;
  if (made == INVALID_SOCKET) {
    os::SetErrno(static_cast<DWORD>(::WSAGetLastError()));
  } else {
    u_long yes = 1;
    ::ioctlsocket(made, static_cast<long>(FIONBIO), &yes);
    fd.reset(os::PutObject(std::make_shared<os::SocketObject>(made, os::SocketObject::Use::kNetwork)));
  }
  if (!fd) {
    return Status{StatusCode::kInsufficientResources,
                  std::string("cannot create a socket: ") + os::ErrorText(errno), Detail::kTransport, errno};
  }
  if (v6) SetInt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return fd;
}

Result<UniqueFd> HoldPort(const Address& address) {
  Result<UniqueFd> fd = MakeTcpSocket(address.family());
  if (!fd.ok()) return fd;
  SetInt(fd->get(), SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
  if (Status status = Bind(fd->get(), address, kPlace); !status.ok()) return status;
  return fd;
}

bool StartListening(int held) {
  return Listen(held);
}

void StopListening(int) {}

Result<UniqueFd> BindBeside(int held, const Address& address) {
  if (held < 0) return HoldPort(address);
  return Status{StatusCode::kNotSupported, "a held port of Windows is not shared"};
}

Result<UniqueFd> BindWithoutPort(const Address& address) {
  Result<UniqueFd> fd = MakeTcpSocket(address.family());
  if (!fd.ok()) return fd;
  if (Status status = Bind(fd->get(), address.WithPort(0), kPlace); !status.ok()) return status;
  return fd;
}

Result<UniqueFd> ListenOn(const Address& address) {
  Result<UniqueFd> fd = HoldPort(address);
  if (!fd.ok()) return fd;
  if (!Listen(fd->get())) return os::BindFailure(errno, address, kPlace);
  return fd;
}

int Connect(int fd, const Address& remote) {
  sockaddr_storage storage{};
  const auto length = static_cast<int>(remote.ToSockaddr(&storage));
  if (::connect(SocketOf(fd), reinterpret_cast<const sockaddr*>(&storage), length) == 0) return 0;
  const int error = ::WSAGetLastError();
  if (error == WSAEWOULDBLOCK) return EINPROGRESS;
  os::SetErrno(static_cast<DWORD>(error));
  return errno;
}

int TakeError(int fd) {
  int error = 0, length = sizeof error;
  ::getsockopt(SocketOf(fd), SOL_SOCKET, SO_ERROR, reinterpret_cast<char*>(&error), &length);
  if (error == 0) return 0;
  os::SetErrno(static_cast<DWORD>(error));
  return errno;
}

std::ptrdiff_t Peek(int fd, std::span<std::byte> into) {
  const int got =
      ::recv(SocketOf(fd), reinterpret_cast<char*>(into.data()), static_cast<int>(into.size()), MSG_PEEK);
  if (got >= 0) return got;
  os::SetErrno(static_cast<DWORD>(::WSAGetLastError()));
  return -1;
}

Status ConnectFailure(int error, PortMode mode) {
  const auto because = [error](StatusCode code, std::string_view text, Detail detail = Detail::kTransport) {
    return Status(code, std::string(text) + " (" + os::ErrorText(error) + ")", detail, error);
  };
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
      return because(
          StatusCode::kConnectionRefused,
          mode == PortMode::kSeparate ? "no broker answers on the other host" : "nobody listens there",
          Detail::kNoListener);
    case ENETUNREACH:
    case EINVAL:
    case EAFNOSUPPORT:
      return because(StatusCode::kNetworkUnreachable, "there is no route to the destination");
    case EHOSTUNREACH:
    case EACCES:
      return because(StatusCode::kHostUnreachable, "the host cannot be reached");
    case ETIMEDOUT:
      return because(StatusCode::kIoTimeout, "the host does not answer", Detail::kWireTimeout);
    case EADDRINUSE:
      if (mode == PortMode::kTcp) {
        return because(StatusCode::kAddressAlreadyExists,
                       "a connection with these four addresses exists or lingers");
      }
      return because(StatusCode::kSharingViolation,
                     "the local port is in use by another socket of this host");
    case EADDRNOTAVAIL:
      // The destination is no address that a connection can have.
      return because(StatusCode::kNetworkUnreachable, "there is no route to the destination");
    default:
      return because(StatusCode::kInsufficientResources, "the connection cannot be started");
  }
}

void SetHandshakeOptions(int fd, Duration keepalive) {
  const Duration bounded =
      std::clamp<Duration>(keepalive, std::chrono::seconds(2), std::chrono::seconds(3600));
  os::KeepTcpAlive(fd, bounded / 2, bounded);
}

// A broker hands the socket over to another process; the option belongs to the socket.
void SetHandOverOptions(int fd) {
  SetResetOnClose(fd, true);
}

// Windows 10 counts the bytes in flight (SIO_TCP_INFO). Where it does not answer, the bytes count as unsent,
// and the connection ends without a reset.
bool NothingUnsent(int fd) {
  constexpr DWORD kTcpInfo = 0xD8000027;  // SIO_TCP_INFO, which the headers of mingw-w64 do not have.
  struct TcpInfoV0 {
    int state;
    ULONG mss;
    ULONG64 connected_ms;
    BOOLEAN timestamps;
    ULONG rtt_us, least_rtt_us, bytes_in_flight, congestion_window, send_window, receive_window,
        receive_buffer;
    ULONG64 bytes_out, bytes_in;
    ULONG reordered, retransmitted, fast_retransmitted, duplicate_acks, timeouts;
    UCHAR syn_retransmitted;
  } info{};
  DWORD version = 0, bytes = 0;
  return ::WSAIoctl(SocketOf(fd), kTcpInfo, &version, sizeof version, &info, sizeof info, &bytes, nullptr,
                    nullptr) == 0 &&
         bytes == sizeof info && info.bytes_in_flight == 0;
}

void SetResetOnClose(int fd, bool reset) {
  os::ResetOnClose(fd, reset);
}

// Windows has no SO_RCVLOWAT.
void SetLowWater(int, int) {}

bool PeerClosed(int fd) {
  WSAPOLLFD state{SocketOf(fd), POLLRDNORM, 0};
  if (::WSAPoll(&state, 1, 0) != 1) return false;
  if ((state.revents & (POLLHUP | POLLERR)) != 0) return true;
  char byte;
  return ::recv(SocketOf(fd), &byte, 1, MSG_PEEK) == 0;
}

Address LocalAddressOf(int fd) {
  return os::LocalAddress(fd);
}
Address PeerAddressOf(int fd) {
  return os::PeerAddress(fd);
}

}  // namespace nd::provider::soft
