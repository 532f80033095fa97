// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a Unix socket, according to the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"

namespace nd::service {

struct Peer {
  std::uint32_t pid = 0, uid = 0, gid = 0;
  std::uint64_t cookie = 0;  // Names the socket for as long as the host runs; never reused.
  // Names the network namespace in which the client made its socket; never reused. 0: the kernel does not
  // say (before Linux 5.14).
  std::uint64_t network = 0;
};

std::optional<Peer> PeerOf(int socket);
// This process's own, as in Peer::network.
std::uint64_t OwnNetwork();
// The socket behind gRPC's "fd:7"; nothing for any other kind of peer. gRPC keeps the descriptor open for as
// long as a call on it lives, so the number still means that socket.
std::optional<Peer> PeerOfCall(std::string_view grpc_peer);
// Whether the kernel can name the process at the other end for good (Linux 6.5).
bool HasPeerPidfd(int socket);
// Readable once the process has ended; empty when the kernel cannot tell.
UniqueFd ProcessHandle(int socket, std::uint32_t pid);

}  // namespace nd::service
