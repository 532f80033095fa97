// SPDX-License-Identifier: Apache-2.0
// The C library of Windows has no text for the numbers of sockets: strerror() answers "Unknown error".
#include "base/os/error_text.h"

#include <cerrno>
#include <cstring>

namespace nd::os {

std::string ErrorText(int error) {
  switch (error) {
    case EADDRINUSE:
      return "Address already in use";
    case EADDRNOTAVAIL:
      return "Cannot assign requested address";
    case EAFNOSUPPORT:
      return "Address family not supported by protocol";
    case ECONNABORTED:
      return "Software caused connection abort";
    case ECONNREFUSED:
      return "Connection refused";
    case ECONNRESET:
      return "Connection reset by peer";
    case EHOSTUNREACH:
      return "No route to host";
    case EINPROGRESS:
      return "Operation now in progress";
    case ELOOP:
      return "Too many levels of symbolic links";
    case EMSGSIZE:
      return "Message too long";
    case ENETDOWN:
      return "Network is down";
    case ENETUNREACH:
      return "Network is unreachable";
    case ENOBUFS:
      return "No buffer space available";
    case ENOTCONN:
      return "Transport endpoint is not connected";
    case ENOTSOCK:
      return "Socket operation on non-socket";
    case ENOTSUP:
    case EOPNOTSUPP:
      return "Operation not supported";
    case EOVERFLOW:
      return "Value too large for defined data type";
    case EPROTO:
      return "Protocol error";
    case ETIMEDOUT:
      return "Connection timed out";
    default:
      return std::strerror(error);
  }
}

}  // namespace nd::os
