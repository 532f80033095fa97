// SPDX-License-Identifier: Apache-2.0
// Identity comes from the socket and from nothing that a message says.
#include "daemon/service/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <charconv>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace nd::service {
namespace {

// The accepted end of a Unix connection belongs to the namespace of the end that connected. Unlike
// /proc/PID/ns/net this needs no right over the process, and no number of it can be taken over meanwhile.
std::uint64_t NetworkOf(int socket) {
  std::uint64_t network = 0;
  socklen_t length = sizeof network;
  return ::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &network, &length) == 0 ? network : 0;
}

}  // namespace

std::optional<Peer> PeerOf(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  // What the kernel says of a socket whose other end it does not know.
  if (credentials.uid == static_cast<uid_t>(-1)) return std::nullopt;
  Peer peer{static_cast<std::uint32_t>(credentials.pid), credentials.uid, credentials.gid, 0,
            NetworkOf(socket)};
  length = sizeof peer.cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &peer.cookie, &length) != 0) return std::nullopt;
  return peer;
}

std::uint64_t OwnNetwork() {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return fd ? NetworkOf(fd.get()) : 0;
}

std::optional<Peer> PeerOfCall(std::string_view grpc_peer) {
  if (!grpc_peer.starts_with("fd:")) return std::nullopt;
  int fd = -1;
  const char* end = grpc_peer.data() + grpc_peer.size();
  const auto parsed = std::from_chars(grpc_peer.data() + 3, end, fd);
  if (parsed.ec != std::errc() || parsed.ptr != end || fd < 0) return std::nullopt;
  return PeerOf(fd);
}

bool HasPeerPidfd(int socket) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) != 0) return false;
  const UniqueFd owned(fd);
  return true;
}

UniqueFd ProcessHandle(int socket, std::uint32_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return UniqueFd(fd);
  if (pid == 0) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

}  // namespace nd::service
