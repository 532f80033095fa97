// SPDX-License-Identifier: Apache-2.0
// Takes the identity from the socket and never from a message.
#include "daemon/service/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace nd::service {
namespace {

// The accepted end of a Unix connection belongs to the namespace of the end that connected. Unlike
// /proc/PID/ns/net this needs no permission over the process, and the pid cannot be reused meanwhile.
std::uint64_t NetworkOf(int socket) {
  std::uint64_t network = 0;
  socklen_t length = sizeof network;
  return ::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &network, &length) == 0 ? network : 0;
}

// Facts from /proc about a process. They need no permission over the process except for the links: a broker
// that is neither root nor the user of the peer may not read those.
struct NamespaceFacts {
  std::optional<std::pair<dev_t, ino_t>> pid, network, user;
  bool one_pid = false;  // The process has only one pid: it is in the pid namespace of /proc, which is that
                         // of this process.
  std::string uids, gids;

  static std::optional<std::pair<dev_t, ino_t>> Link(const std::string& path) {
    struct stat st;
    if (::stat(path.c_str(), &st) != 0) return std::nullopt;
    return std::pair(st.st_dev, st.st_ino);
  }
  static std::string Text(const std::string& path) {
    // The read fails when the process ends meanwhile. An iterator over the file would throw then.
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return std::move(text).str();
  }
  explicit NamespaceFacts(const std::string& process) {
    const std::string at = "/proc/" + process;
    pid = Link(at + "/ns/pid");
    network = Link(at + "/ns/net");
    user = Link(at + "/ns/user");
    if (pid && network && user) return;
    std::istringstream numbers;
    const std::string status = Text(at + "/status");
    if (const std::size_t line = status.find("\nNSpid:"); line != status.npos) {
      numbers.str(status.substr(line + 7, status.find('\n', line + 1) - line - 7));
    }
    one_pid = std::distance(std::istream_iterator<std::string>(numbers), {}) == 1;
    uids = Text(at + "/uid_map");
    gids = Text(at + "/gid_map");
  }
};

// The same about this process.
struct OwnFacts {
  NamespaceFacts namespaces{"self"};
  std::string uids = NamespaceFacts::Text("/proc/self/uid_map");
  std::string gids = NamespaceFacts::Text("/proc/self/gid_map");
  bool whole() const {
    return namespaces.pid && namespaces.network && namespaces.user && !uids.empty() && !gids.empty();
  }
};

// The facts are cached only when they are complete: a process that once lacked a descriptor must not take
// every later caller for a foreigner.
std::shared_ptr<const OwnFacts> Self() {
  static std::mutex mutex;
  static std::shared_ptr<const OwnFacts> known;
  const std::lock_guard lock(mutex);
  if (known) return known;
  auto facts = std::make_shared<const OwnFacts>();
  if (facts->whole()) known = facts;
  return facts;
}

}  // namespace

std::string ForeignNamespaces::ToString() const {
  std::string text;
  const auto add = [&text](bool foreign, const char* name) {
    if (foreign) text += (text.empty() ? "" : " and ") + std::string(name);
  };
  add(pid, "pid");
  add(network, "network");
  add(user, "user");
  return text;
}

ForeignNamespaces ForeignNamespacesOf(const Peer& peer, int process) {
  const std::shared_ptr<const OwnFacts> self = Self();
  const NamespaceFacts& own = self->namespaces;
  const std::uint64_t own_network = OwnNetwork();
  if (peer.pid == 0) return {};  // This pid namespace has no pid for it.
  const NamespaceFacts facts(std::to_string(peer.pid));
  ForeignNamespaces foreign;
  foreign.pid = facts.pid ? facts.pid != own.pid : !facts.one_pid;
  foreign.user = facts.user ? facts.user != own.user
                            : facts.uids.empty() || facts.uids != self->uids || facts.gids != self->gids;
  const bool other_socket =
      peer.network != own_network;  // A socket made in one namespace and used in another counts as foreign.
  foreign.network = other_socket || (facts.network ? facts.network != own.network : peer.network == 0);
  pollfd ended{process, POLLIN, 0};
  if (process >= 0 && ::poll(&ended, 1, 0) != 0) return {};
  return foreign;
}

std::optional<Peer> PeerOf(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  // The kernel reports this uid for a socket whose other end it does not know.
  if (credentials.uid == static_cast<uid_t>(-1)) return std::nullopt;
  Peer peer{static_cast<std::uint32_t>(credentials.pid), credentials.uid, credentials.gid, 0,
            NetworkOf(socket)};
  length = sizeof peer.cookie;
  if (::getsockopt(socket, SOL_SOCKET, SO_COOKIE, &peer.cookie, &length) != 0) return std::nullopt;
  return peer;
}

std::uint64_t OwnNetwork() {
  // Cached only when it is known, as in Self().
  static std::atomic<std::uint64_t> known{0};
  std::uint64_t network = known.load(std::memory_order_relaxed);
  if (network != 0) return network;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  network = fd ? NetworkOf(fd.get()) : 0;
  known.store(network, std::memory_order_relaxed);
  return network;
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
