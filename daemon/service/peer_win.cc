// SPDX-License-Identifier: Apache-2.0
// The kernel names the process at the other end of a pipe, and the token of that process its user.
#include "daemon/service/peer.h"

#include <atomic>
#include <charconv>
#include <memory>

#include "base/os/pipe_win.h"
#include "base/os/socket.h"

namespace nd::service {
namespace {

// The one network of a Windows host.
constexpr std::uint64_t kNetwork = 1;

}  // namespace

std::string ForeignNamespaces::ToString() const {
  return any() ? "host" : "";
}

// Windows has no namespaces of processes and users: every client of a pipe that refuses other hosts is of
// this one.
ForeignNamespaces ForeignNamespacesOf(const Peer&, int) {
  return {false, false, false};
}

std::optional<Peer> PeerOf(int socket) {
  static std::atomic<std::uint64_t> last_cookie{0};
  const auto pipe = os::FindAs<os::PipeObject>(socket);
  if (!pipe || pipe->peer() == nullptr) return std::nullopt;
  const DWORD pid = ::GetProcessId(pipe->peer());
  const std::optional<std::uint32_t> user = os::PeerUser(socket);
  if (pid == 0 || !user) return std::nullopt;
  return Peer{pid, *user, *user, ++last_cookie, kNetwork};
}

std::uint64_t OwnNetwork() {
  return kNetwork;
}

// gRPC has one end of a pair; the number of the end stands for the client in GuardedStreams, and alone names
// nobody.
std::optional<Peer> PeerOfCall(std::string_view grpc_peer) {
  constexpr std::string_view kKind = "pair:";
  if (!grpc_peer.starts_with(kKind)) return std::nullopt;
  Peer peer;
  const char* end = grpc_peer.data() + grpc_peer.size();
  const auto parsed = std::from_chars(grpc_peer.data() + kKind.size(), end, peer.cookie);
  if (parsed.ec != std::errc() || parsed.ptr != end || peer.cookie == 0) return std::nullopt;
  return peer;
}

bool HasPeerPidfd(int socket) {
  const auto pipe = os::FindAs<os::PipeObject>(socket);
  return pipe && pipe->peer() != nullptr;
}

// A process is signalled when it has ended.
UniqueFd ProcessHandle(int socket, std::uint32_t) {
  const auto pipe = os::FindAs<os::PipeObject>(socket);
  HANDLE copy = nullptr;
  if (!pipe || ::DuplicateHandle(::GetCurrentProcess(), pipe->peer(), ::GetCurrentProcess(), &copy,
                                 SYNCHRONIZE, FALSE, 0) == 0) {
    return {};
  }
  return UniqueFd(os::PutObject(std::make_shared<os::EventObject>(os::Handle(copy))));
}

}  // namespace nd::service
