// SPDX-License-Identifier: Apache-2.0
// The cable is two veth pairs whose near ends are read and written through packet sockets, because small
// kernels lack netem and nftables.
#include "tests/testing/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace nd::testing {
namespace {

bool in_private_network = false;

bool WriteFile(const char* path, const std::string& text) {
  const UniqueFd fd(open(path, O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Frames must be complete and have checksums, because captured frames are forwarded unchanged.
bool TurnOffloadsOff(const std::string& name) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const std::uint32_t what : {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM}) {
    ethtool_value value{what, 0};
    ifreq request{};
    std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    if (ioctl(fd.get(), SIOCETHTOOL, &request) != 0 && what == ETHTOOL_STXCSUM) return false;
  }
  return true;
}

UniqueFd PacketSocket(const std::string& name) {
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return UniqueFd();
  return fd;
}

constexpr std::size_t kEthernet = 14, kUdp = 8, kBth = 12;
constexpr std::uint16_t kRocePort = 4791;

Frame Understand(const std::uint8_t* data, std::size_t size, int from) {
  Frame frame;
  frame.from = from;
  if (size < kEthernet + 40 || data[12] != 0x08 || data[13] != 0x00) return frame;
  const std::uint8_t* ip = data + kEthernet;
  const std::size_t ip_header = (ip[0] & 0xFu) * 4;
  const std::size_t total = static_cast<std::size_t>(ip[2] << 8 | ip[3]);
  const std::uint8_t* header = ip + ip_header;
  if (ip[9] == IPPROTO_TCP) {
    const std::size_t tcp_header = static_cast<std::size_t>(header[12] >> 4) * 4;
    frame.transport = true;
    frame.payload = static_cast<std::uint32_t>(total - ip_header - tcp_header);
    frame.fin = (header[13] & 0x01) != 0;
    frame.syn = (header[13] & 0x02) != 0;
    frame.rst = (header[13] & 0x04) != 0;
  } else if (ip[9] == IPPROTO_UDP && (header[2] << 8 | header[3]) == kRocePort) {
    frame.transport = true;
    frame.payload = static_cast<std::uint32_t>(total - ip_header - kUdp - kBth);
  }
  return frame;
}

}  // namespace

std::string Ip(const std::string& arguments, int ns) {
  std::string prefix;
  if (ns >= 0) {
    prefix = "nsenter --net=/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(ns) + " ";
  }
  std::string output;
  std::FILE* pipe = popen((prefix + "ip " + arguments + " 2>&1").c_str(), "re");
  if (pipe == nullptr) return "popen failed";
  char part[512];
  std::size_t n;
  while ((n = fread(part, 1, sizeof(part), pipe)) > 0) output.append(part, n);
  const int status = pclose(pipe);
  if (status == 0) return {};
  return "ip " + arguments + ": " + (output.empty() ? "failed" : output);
}

std::string EnterPrivateNetwork() {
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  // Root keeps its user namespace, because some cases change users. Any other user becomes root of a new one.
  if (unshare(CLONE_NEWNET) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return std::string("unshare: ") + std::strerror(errno);
    if (!WriteFile("/proc/self/setgroups", "deny") ||
        !WriteFile("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") ||
        !WriteFile("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1")) {
      return "cannot map the user into a user namespace";
    }
  }
  in_private_network = true;
  std::string error = Ip("link set lo up");
  for (int i = 1; i < 10 && error.empty(); ++i) {
    Ip("addr add fd00::" + std::to_string(i) + "/128 dev lo nodad");  // Some hosts have no IPv6.
  }
  return error;
}

bool HasNetworkNamespaces() {
  return true;
}

bool InPrivateNetwork() {
  return in_private_network;
}

bool CanBeAnotherUser() {
  constexpr std::uint64_t kNobody = 65534;
  if (geteuid() != 0) return false;
  std::ifstream map("/proc/self/uid_map");
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    if (kNobody >= first && kNobody - first < count) return true;
  }
  return false;
}

void AdoptNetwork() {
  in_private_network = true;
}

Namespace::Namespace() {
  SpawnOptions spawn;
  spawn.arguments = {"/usr/bin/unshare", "--net", "/bin/sleep", "1000000"};
  holder_ = Process::Spawn(spawn);
  const std::string path = "/proc/" + std::to_string(holder_.pid()) + "/ns/net";
  const auto name_of = [](const std::string& link) {
    char name[64] = {};
    return readlink(link.c_str(), name, sizeof(name) - 1) > 0 ? std::string(name) : std::string();
  };
  const std::string own = name_of("/proc/self/ns/net");
  const bool there = Eventually([&] {
    const std::string name = name_of(path);
    return (!name.empty() && name != own) || !holder_.running();
  });
  if (!there || !holder_.running()) return;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd && Ip("link set lo up", fd.get()).empty()) fd_ = std::move(fd);
}

Wire::Wire(const Namespace& a, const std::string& address_a, const Namespace& b,
           const std::string& address_b) {
  static int count = 0;
  const Namespace* sides[2] = {&a, &b};
  const std::string* addresses[2] = {&address_a, &address_b};
  for (int i = 0; i < 2; ++i) {
    names_[i] =
        "ndw" + std::to_string(getpid() % 100000) + (i == 0 ? "a" : "b") + std::to_string(++count % 100);
    const std::string holder = std::to_string(sides[i]->holder());
    for (const std::string& step : {"link add " + names_[i] + " type veth peer name wire netns " + holder,
                                    "link set " + names_[i] + " up"}) {
      if (error_.empty()) error_ = Ip(step);
    }
    for (const std::string& step :
         {"addr add " + *addresses[i] + " dev wire", std::string("link set wire up")}) {
      if (error_.empty()) error_ = Ip(step, sides[i]->fd());
    }
    if (!error_.empty()) return;
    // The offloads of the far end determine the frames that the near end receives.
    const int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (setns(sides[i]->fd(), CLONE_NEWNET) != 0 || !TurnOffloadsOff("wire"))
      error_ = "cannot turn offloads off";
    if (setns(here, CLONE_NEWNET) != 0) error_ = "cannot come back";
    close(here);
    if (!error_.empty() || !Begin(i, names_[i])) return;
  }
  stop_.reset(eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { Run(); });
}

Wire::Wire(const std::string& near_a, const std::string& near_b) {
  if (!Begin(0, near_a) || !Begin(1, near_b)) return;
  stop_.reset(eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { Run(); });
}

bool Wire::Begin(int side, const std::string& name) {
  ends_[side] = PacketSocket(name);
  if (!ends_[side]) error_ = "cannot open a packet socket on " + name;
  return error_.empty();
}

Wire::~Wire() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof(one)) != sizeof(one)) std::abort();
    thread_.join();
  }
  for (const std::string& name : names_) {
    if (!name.empty()) Ip("link del " + name);
  }
}

void Wire::SetFilter(std::function<bool(const Frame&)> passes) {
  const std::lock_guard lock(mutex_);
  passes_ = std::move(passes);
}

void Wire::Run() {
  std::uint8_t buffer[70'000];
  pollfd set[3] = {{ends_[0].get(), POLLIN, 0}, {ends_[1].get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  for (;;) {
    if (poll(set, 3, -1) < 0) continue;
    if (set[2].revents != 0) return;
    for (int side = 0; side < 2; ++side) {
      sockaddr_ll from{};
      socklen_t from_size = sizeof(from);
      const ssize_t n = recvfrom(ends_[side].get(), buffer, sizeof(buffer), 0,
                                 reinterpret_cast<sockaddr*>(&from), &from_size);
      if (n <= 0 || from.sll_pkttype == PACKET_OUTGOING) continue;
      bool pass = true;
      {
        const std::lock_guard lock(mutex_);
        if (passes_) pass = passes_(Understand(buffer, static_cast<std::size_t>(n), side));
      }
      if (!pass) {
        ++dropped_;
      } else if (send(ends_[1 - side].get(), buffer, static_cast<std::size_t>(n), 0) < 0) {
        ++dropped_;
      }
    }
  }
}

}  // namespace nd::testing
