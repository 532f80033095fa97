// SPDX-License-Identifier: Apache-2.0
// Collects the facts of this host. A fact that cannot be read stays unknown and is not an error.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/locate.h"
#include "base/os/host.h"
#include "base/unique_fd.h"
#include "cli/doctor.h"
#include "cli/version.h"

namespace nd::cli {
namespace {

namespace fs = std::filesystem;

SocketState StateOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return SocketState::kAbsent;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // Tries stream and seqpacket: EPROTOTYPE tells that the type is wrong.
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      return SocketState::kAnswers;
    }
    if (errno == EPROTOTYPE) continue;
    if (errno == EACCES || errno == EPERM) return SocketState::kForbidden;
    if (errno == ECONNREFUSED) return SocketState::kStale;
    return errno == EAGAIN ? SocketState::kSilent : SocketState::kAbsent;
  }
  return SocketState::kAbsent;
}

DirectoryFact Look(const std::string& path) {
  DirectoryFact fact;
  fact.path = path;
  fact.admin.path = path + "/" + kAdminSocketName;
  fact.broker.path = ClientSocketPath(path, kBrokerSocketName);
  fact.lane.path = ClientSocketPath(path, kLaneSocketName);
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return fact;
  fact.exists = true;
  fact.is_link = S_ISLNK(status.st_mode);
  if (stat(path.c_str(), &status) != 0) return fact;
  fact.is_directory = S_ISDIR(status.st_mode);
  fact.owner = status.st_uid;
  fact.mode = status.st_mode & 07777;
  for (SocketFact* socket : {&fact.admin, &fact.broker, &fact.lane}) socket->state = StateOf(socket->path);
  return fact;
}

std::vector<std::string> Candidates(const std::string& chosen) {
  std::set<std::string> paths = {kSystemBrokerDirectory, OwnBrokerDirectory(),
                                 "/tmp/ndbroker-" + std::to_string(getuid())};
  if (const char* directory = std::getenv("XDG_RUNTIME_DIR"))
    paths.insert(std::string(directory) + "/ndbroker");
  std::vector<std::string> others;
  std::error_code error;
  for (const std::string& path : paths) {
    if (!fs::equivalent(path, chosen, error) && path != chosen && fs::exists(path, error))
      others.push_back(path);
  }
  return others;
}

std::vector<std::uint32_t> BrokerPids() {
  std::vector<std::uint32_t> pids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    std::uint32_t pid = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (end.ptr != name.data() + name.size()) continue;
    std::string command;
    std::ifstream comm(entry.path() / "comm");
    if (std::getline(comm, command) && command == "ndbrokerd") pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

// "libndbroker.so.1.0.1.0" gives 0.1.0, after the number of the interface; links with fewer numbers are
// skipped.
std::vector<std::string> Libraries() {
  std::set<std::string> versions;
  static const std::string kPrefix = "libndbroker.so.1.";
  for (const char* directory : {"/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
                                "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(kPrefix) && std::count(name.begin(), name.end(), '.') == 5) {
        versions.insert(name.substr(kPrefix.size()));
      }
    }
  }
  return {versions.begin(), versions.end()};
}

std::uint64_t Limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
}

void LookAtDevices(Facts* facts) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/sys/class/infiniband", error)) {
    facts->rdma_devices.push_back(entry.path().filename());
  }
  std::sort(facts->rdma_devices.begin(), facts->rdma_devices.end());
  facts->verbs_usable = true;
  for (const auto& entry : fs::directory_iterator("/dev/infiniband", error)) {
    const std::string name = entry.path().filename();
    const bool usable = access(entry.path().c_str(), R_OK | W_OK) == 0;
    if (name.starts_with("uverbs")) {
      facts->verbs_nodes = true;
      facts->verbs_usable = facts->verbs_usable && usable;
    }
    if (name == "rdma_cm") {
      facts->cm_node = true;
      facts->cm_usable = usable;
    }
  }
  std::ifstream mode("/sys/module/ib_core/parameters/netns_mode");
  if (std::string shared; std::getline(mode, shared))
    facts->rdma_namespaces = shared == "Y" ? "shared" : "exclusive";
}

bool SealedMemoryWorks() {
  const UniqueFd fd(memfd_create("ndctl-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fd && ftruncate(fd.get(), 4096) == 0 &&
         fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
}

}  // namespace

std::string NetworkOf(std::uint32_t pid) {
  std::error_code error;
  return fs::read_symlink("/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/ns/net", error).string();
}

Facts Gather(const std::string& directory) {
  Facts facts;
  facts.uid = getuid();
  facts.chosen = Look(directory);
  for (const std::string& path : Candidates(directory)) facts.others.push_back(Look(path));
  facts.broker_pids = BrokerPids();
  facts.ndctl_version = kVersion;
  std::ifstream packages("/var/lib/dpkg/status");
  facts.packages = PackagesIn(packages);
  facts.libraries = Libraries();
  facts.memlock = Limit(RLIMIT_MEMLOCK);
  facts.descriptors = Limit(RLIMIT_NOFILE);
  LookAtDevices(&facts);
  facts.own_network = NetworkOf(0);
  timex clock{};
  const int state = adjtimex(&clock);
  facts.clock_synchronized = state != -1 && state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
  facts.sealed_memory = SealedMemoryWorks();
  return facts;
}

std::vector<Verdict> ExamineHost(const std::string& directory, const BrokerFacts& broker) {
  BrokerFacts answers = broker;
  if (broker.answers) answers.network = NetworkOf(broker.pid);
  Facts facts = Gather(directory);
  facts.service = GatherService(broker.answers ? broker.pid : 0);
  return Judge(facts, answers);
}

std::string DescribeHost() {
  std::ostringstream out;
  out << os::SystemName() << "\n";
  for (const char* path :
       {"/etc/os-release", "/proc/meminfo", "/proc/self/limits", "/proc/net/sockstat", "/proc/net/sockstat6",
        "/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/core/somaxconn", "/proc/sys/fs/file-nr",
        "/sys/module/ib_core/parameters/netns_mode"}) {
    std::ifstream file(path);
    out << "\n== " << path << "\n" << (file ? "" : "not there\n");
    if (file) out << file.rdbuf();
    out.clear();  // An empty file sets failbit.
  }
  return out.str();
}

}  // namespace nd::cli
