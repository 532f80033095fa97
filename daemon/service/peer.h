// SPDX-License-Identifier: Apache-2.0
// The identity of the process at the other end of a Unix socket, according to the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace nd::service {

struct Peer {
  std::uint32_t pid = 0, uid = 0, gid = 0;
  std::uint64_t cookie = 0;  // Identifies the socket; never reused while the host runs.
  // Identifies the network namespace in which the client made its socket; never reused. 0: the kernel does
  // not report it (before Linux 5.14).
  std::uint64_t network = 0;
};

// The namespaces of a peer that differ from those of this process. A namespace that the kernel does not
// report counts as foreign.
struct ForeignNamespaces {
  bool pid = true, network = true, user = true;
  bool any() const { return pid || network || user; }
  std::string ToString() const;  // "pid and network"; empty: none.
};

std::optional<Peer> PeerOf(int socket);
// Reads /proc, so it may block briefly; any thread but the loop. `process` (from ProcessHandle()) proves that
// the pid is not reused: after its end every namespace counts as foreign. -1: the caller notices the end of
// the process in another way.
ForeignNamespaces ForeignNamespacesOf(const Peer& peer, int process);
// Returns the namespace of this process, as in Peer::network.
std::uint64_t OwnNetwork();
// Returns the peer of the socket behind "fd:7" of gRPC; nothing for any other kind of peer. gRPC keeps the
// descriptor open as long as a call on it lives, so the number still names that socket.
std::optional<Peer> PeerOfCall(std::string_view grpc_peer);
// Returns whether the kernel has pidfds of socket peers (Linux 6.5).
bool HasPeerPidfd(int socket);
// Returns a descriptor that becomes readable when the process has ended; empty when the kernel has none.
UniqueFd ProcessHandle(int socket, std::uint32_t pid);

}  // namespace nd::service
