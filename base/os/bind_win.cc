// SPDX-License-Identifier: Apache-2.0
#include "base/os/bind.h"

#include <ws2tcpip.h>

#include <cerrno>
#include <string>

#include "base/os/error_text.h"
#include "base/os/object_win.h"

namespace nd::os {

Status BindFailure(int error, const Address& at, std::string_view place) {
  const std::string tcp = "TCP " + at.ToString(), of_place = " of " + std::string(place);
  switch (error) {
    case EADDRINUSE:
      return {StatusCode::kSharingViolation,
              tcp + " is in use by another program" + of_place + "; `netstat -ano -p TCP` shows its process",
              Detail::kTransport, error};
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return {StatusCode::kInvalidAddress, at.IpToString() + " is not an address" + of_place,
              Detail::kTransport, error};
    case EACCES:
    case EPERM:
      return {StatusCode::kAccessDenied, tcp + of_place + " may not be bound by this process",
              Detail::kTransport, error};
    default:
      return {StatusCode::kInsufficientResources, tcp + of_place + " cannot be bound: " + ErrorText(error),
              Detail::kTransport, error};
  }
}

Status Bind(int socket, const Address& at, std::string_view place) {
  sockaddr_storage storage{};
  const std::size_t length = at.ToSockaddr(&storage);
  if (length == 0) return {StatusCode::kInvalidAddress, "the local address is malformed"};
  const auto object = FindAs<SocketObject>(socket);
  if (!object) return BindFailure(errno, at, place);
  if (::bind(object->get(), reinterpret_cast<const sockaddr*>(&storage), static_cast<int>(length)) == 0) {
    return Status::Ok();
  }
  SetErrno(static_cast<DWORD>(::WSAGetLastError()));
  return BindFailure(errno, at, place);
}

}  // namespace nd::os
