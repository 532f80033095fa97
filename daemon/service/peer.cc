// SPDX-License-Identifier: Apache-2.0
// Identity comes from the socket and from nothing that a message says.
#include "daemon/service/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <charconv>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace nd::service {

std::optional<Peer> PeerOf(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  Peer peer{static_cast<std::uint32_t>(credentials.pid), credentials.uid, credentials.gid, 0};
  length = sizeof peer.cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &peer.cookie, &length) != 0) return std::nullopt;
  return peer;
}

std::optional<Peer> PeerOfCall(std::string_view grpc_peer) {
  if (!grpc_peer.starts_with("fd:")) return std::nullopt;
  int fd = -1;
  const char* end = grpc_peer.data() + grpc_peer.size();
  const auto parsed = std::from_chars(grpc_peer.data() + 3, end, fd);
  if (parsed.ec != std::errc() || parsed.ptr != end || fd < 0) return std::nullopt;
  return PeerOf(fd);
}

UniqueFd ProcessHandle(int socket, std::uint32_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return UniqueFd(fd);
  if (pid == 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

}  // namespace nd::service
