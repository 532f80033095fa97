// SPDX-License-Identifier: Apache-2.0
// Reads the same sources that an administrator would check.
#include "daemon/admin/health_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd_lane.h"
#include "base/locate.h"
#include "base/unique_fd.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/service/peer.h"

namespace nd::service {
namespace {

constexpr int kConnectPatience = 500;                // Milliseconds.
constexpr std::time_t kProgramIsNewer = 1735689600;  // 2025-01-01.

HealthFacts::File FileAt(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return {path, errno, 0, 0, 0};
  return {path, 0, st.st_uid, st.st_mode, static_cast<std::uint64_t>(st.st_size)};
}

int ConnectError(const Address& address) {
  sockaddr_storage storage{};
  const std::size_t length = address.ToSockaddr(&storage);
  const UniqueFd fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) == 0)
    return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{fd.get(), POLLOUT, 0};
  if (::poll(&waiting, 1, kConnectPatience) != 1) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::optional<bool> InInitialNetwork() {
  struct stat own, first;
  if (::stat("/proc/self/ns/net", &own) != 0 || ::stat("/proc/1/ns/net", &first) != 0) return std::nullopt;
  return own.st_dev == first.st_dev && own.st_ino == first.st_ino;
}

Duration Now(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool KernelHasPeerPidfd() {
  UniqueFd one, other;
  return MakeSeqpacketPair(&one, &other).ok() && HasPeerPidfd(one.get());
}

std::vector<HealthFacts::File> DeviceNodes() {
  const std::string folder = "/dev/infiniband/";
  std::vector<HealthFacts::File> nodes;
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return nodes;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.starts_with("uverbs") || name == "rdma_cm") nodes.push_back(FileAt(folder + name));
  }
  ::closedir(directory);
  std::ranges::sort(nodes, {}, &HealthFacts::File::path);
  return nodes;
}

}  // namespace

void GatherHealth(const std::string& directory, const std::vector<Address>& ports, HealthFacts* facts) {
  facts->fds_open = ops::OpenFds();
  facts->fd_limit = ops::FdLimit();
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    facts->memlock = limit.rlim_cur;
  facts->own_uid = ::geteuid();
  facts->directory = FileAt(directory);
  facts->sockets.push_back(FileAt(directory + "/" + kAdminSocketName));
  facts->sockets.push_back(FileAt(ClientSocketPath(directory, kLaneSocketName)));
  if (facts->grpc) facts->sockets.push_back(FileAt(ClientSocketPath(directory, kBrokerSocketName)));
  facts->initial_network = InInitialNetwork();
  facts->suspended = std::max(Duration::zero(), Now(CLOCK_BOOTTIME) - Now(CLOCK_MONOTONIC));
  facts->clock_is_set = ::time(nullptr) >= kProgramIsNewer;
  facts->log_level = ops::LogLevel();
  for (const Address& port : ports) facts->ports.push_back({port.ToString(), ConnectError(port)});
  facts->peer_pidfd = KernelHasPeerPidfd();
  facts->devices = DeviceNodes();
  facts->journal_file = FileAt(facts->journal_file.path);
  if (!facts->history) return;
  facts->history_file = FileAt(facts->history_file.path);
  facts->history_file.bytes += FileAt(facts->history_file.path + "-wal").bytes;
}

}  // namespace nd::service
