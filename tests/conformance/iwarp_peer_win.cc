// SPDX-License-Identifier: Apache-2.0
#include "base/os/object_win.h"
#include "tests/conformance/iwarp_peer.h"

#include <ws2tcpip.h>

#include <memory>

namespace nd::conformance {
namespace {

UniqueFd Kept(SOCKET socket) {
  if (socket == INVALID_SOCKET) return UniqueFd();
  const DWORD patience = 10'000;
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, reinterpret_cast<const char*>(&patience), sizeof patience);
  return UniqueFd(os::PutObject(std::make_shared<os::SocketObject>(socket, os::SocketObject::Use::kNetwork)));
}

UniqueFd Socket() {
  os::StartWinsock();
  return Kept(::WSASocketW(AF_INET, SOCK_STREAM, 0, nullptr, 0, WSA_FLAG_OVERLAPPED));
}

SOCKET Number(const UniqueFd& fd) {
  const auto socket = os::FindAs<os::SocketObject>(fd.get());
  return socket ? socket->get() : INVALID_SOCKET;
}

}  // namespace

UniqueFd ConnectedTo(const Address& to) {
  UniqueFd fd = Socket();
  sockaddr_storage storage{};
  const auto length = static_cast<int>(to.ToSockaddr(&storage));
  if (::connect(Number(fd), reinterpret_cast<sockaddr*>(&storage), length) != 0) fd.reset();
  return fd;
}

// A port in TIME_WAIT is free on Windows; SO_REUSEADDR would take the port of another program.
UniqueFd ListenerAt(const Address& at) {
  UniqueFd fd = Socket();
  const SOCKET socket = Number(fd);
  sockaddr_storage storage{};
  const auto length = static_cast<int>(at.ToSockaddr(&storage));
  if (::bind(socket, reinterpret_cast<sockaddr*>(&storage), length) != 0 || ::listen(socket, 16) != 0)
    fd.reset();
  return fd;
}

UniqueFd AcceptedBy(const UniqueFd& listener) {
  return Kept(::accept(Number(listener), nullptr, nullptr));
}

bool SendAll(const UniqueFd& socket, const void* from, std::size_t size) {
  const auto whole = static_cast<int>(size);
  return ::send(Number(socket), static_cast<const char*>(from), whole, 0) == whole;
}

std::ptrdiff_t ReceiveUntil(const UniqueFd& socket, void* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const int got = ::recv(Number(socket), static_cast<char*>(to) + done, static_cast<int>(size - done), 0);
    if (got < 0 && ::WSAGetLastError() != WSAECONNRESET) return -1;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<std::ptrdiff_t>(done);
}

}  // namespace nd::conformance
