// SPDX-License-Identifier: Apache-2.0
// Identifies each descriptor by the kernel's facts about it; the names of socket units are only for messages.
#include "base/os/inherited_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

namespace nd::os {
namespace {

std::optional<int> SocketOption(int fd, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, option, &value, &length) != 0) return std::nullopt;
  return value;
}

// Returns an empty text when the socket has no path.
std::string PathOf(int fd) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  constexpr socklen_t kBefore = offsetof(sockaddr_un, sun_path);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 || length <= kBefore ||
      address.sun_path[0] == '\0') {
    return {};
  }
  return {address.sun_path, ::strnlen(address.sun_path, length - kBefore)};
}

const char* TypeName(int type) {
  switch (type) {
    case SOCK_STREAM:
      return "a stream socket";
    case SOCK_SEQPACKET:
      return "a sequential packet socket";
    case SOCK_DGRAM:
      return "a datagram socket";
    default:
      return "a socket of another type";
  }
}

std::string Paths(const std::vector<InheritedSockets::Wanted>& wanted) {
  std::string out;
  for (const auto& each : wanted) out += (out.empty() ? "" : ", ") + each.path;
  return out;
}

// Returns the error of a descriptor. Empty when there is none; `path` is then its listening path.
std::string Mistake(int fd, const std::vector<InheritedSockets::Wanted>& wanted, std::string* path) {
  const std::optional<int> domain = SocketOption(fd, SO_DOMAIN);
  if (!domain)
    return "is no socket; the broker takes only listening Unix sockets (ListenStream= of a socket unit)";
  if (*domain != AF_UNIX) {
    return "is no Unix socket; give addresses in [[adapter]] or [metrics] of the configuration instead";
  }
  *path = PathOf(fd);
  const auto it = std::ranges::find(wanted, *path, &InheritedSockets::Wanted::path);
  if (it == wanted.end()) {
    return (path->empty() ? "has no path" : "is " + *path) + ", where this broker has no socket; it serves " +
           Paths(wanted) + ": correct ListenStream= and ListenSequentialPacket= of the socket unit, or " +
           "\"directory\" in [broker]";
  }
  const int type = SocketOption(fd, SO_TYPE).value_or(0);
  const int wanted_type = it->kind == SocketKind::kMessages ? SOCK_SEQPACKET : SOCK_STREAM;
  if (type != wanted_type) {
    return "is " + *path + ", " + TypeName(type) + "; it must be " + TypeName(wanted_type) + ": use " +
           (wanted_type == SOCK_SEQPACKET ? "ListenSequentialPacket=" : "ListenStream=") +
           " in the socket unit";
  }
  if (SocketOption(fd, SO_ACCEPTCONN).value_or(0) != 1) {
    return "is " + *path + " and does not listen; the socket unit needs Accept=no";
  }
  return {};
}

}  // namespace

Result<InheritedSockets> InheritedSockets::Check(std::vector<InheritedDescriptor> descriptors,
                                                 const std::vector<Wanted>& wanted) {
  InheritedSockets out;
  for (InheritedDescriptor& descriptor : descriptors) {
    const int fd = descriptor.fd.get();
    const std::string who =
        "the inherited descriptor " + std::to_string(fd) + " (\"" + descriptor.name + "\") ";
    std::string path;
    if (const std::string mistake = Mistake(fd, wanted, &path); !mistake.empty()) {
      return Status(StatusCode::kInvalidParameter, who + mistake);
    }
    if (std::ranges::find(out.sockets_, path, &Socket::path) != out.sockets_.end()) {
      return Status(
          StatusCode::kInvalidParameter,
          who + "is " + path + ", and so is one before it; list each path once in the socket units");
    }
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
      return Status(StatusCode::kUnsuccessful, who + "cannot be made non-blocking: " + std::strerror(errno));
    }
    out.sockets_.push_back({std::move(path), std::move(descriptor.fd)});
  }
  return out;
}

UniqueFd InheritedSockets::Take(const std::string& path) {
  const auto it = std::ranges::find(sockets_, path, &Socket::path);
  if (it == sockets_.end()) return {};
  UniqueFd fd = std::move(it->fd);
  sockets_.erase(it);
  return fd;
}

}  // namespace nd::os
