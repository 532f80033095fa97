// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/fd_lane.h"
#include "base/locate.h"
#include "tests/crash/hostile/client_attacks.h"
#include "tests/crash/hostile/raw_lane.h"
#include "tests/testing/http2_floods.h"

namespace nd::hostile {
namespace {

namespace h2 = testing::http2;

UniqueFd Dial(const std::string& path, int type) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}
bool Gone(int fd) {
  char byte;
  return ::recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}
pb::ClientMessage ListAdapters() {
  pb::ClientMessage message;
  message.mutable_list_adapters();
  return message;
}
std::string RandomBytes(std::size_t count) {
  std::string out(count, '\0');
  [[maybe_unused]] const ssize_t got = ::getrandom(out.data(), out.size(), 0);
  return out;
}

// Opens silent connections, and opens each one again that the broker closes.
[[noreturn]] void KeepOpen(const std::string& path, int type, std::size_t count) {
  std::vector<UniqueFd> open(count);
  for (;;) {
    for (UniqueFd& fd : open) {
      if (!fd || Gone(fd.get())) fd = Dial(path, type);
    }
    Underway();
    ::usleep(1000);
  }
}

[[noreturn]] void Flood(const Target& target, const h2::Flood& flood, const std::string& opening = {}) {
  constexpr std::size_t kConnections = 8;
  const std::string path = ClientSocketPath(target.directory, kBrokerSocketName);
  std::vector<h2::Attacker> all;
  for (std::size_t i = 0; i < kConnections; ++i) all.emplace_back(path, flood, opening);
  for (;;) {
    std::array<pollfd, kConnections> waits;
    for (std::size_t i = 0; i < kConnections; ++i) {
      all[i].Step();
      waits[i] = all[i].Wait();
    }
    Underway();
    ::poll(waits.data(), waits.size(), 10);
  }
}

}  // namespace

void OpenConnections(const Target& target) {
  KeepOpen(ClientSocketPath(target.directory, kLaneSocketName), SOCK_SEQPACKET, 400);
}
void OpenStreamConnections(const Target& target) {
  KeepOpen(ClientSocketPath(target.directory, kBrokerSocketName), SOCK_STREAM, 400);
}

void ConnectAndGo(const Target& target) {
  for (;;) {
    const RawLane lane(target.directory, false);
    Underway();
  }
}

// Whole sessions with objects end at the same time, so that late events of an ended session meet descriptor
// numbers of a new one.
void DieInHordes(const Target& target) {
  std::signal(SIGCHLD, SIG_IGN);
  for (;;) {
    std::array<pid_t, 8> horde;
    for (pid_t& member : horde) {
      member = ForkWithMe();
      if (member != 0) continue;
      RawLane lane(target.directory);
      static_cast<void>(lane.QueuePair());
      static_cast<void>(lane.Connector());
      ::pause();
    }
    ::usleep(30'000);
    for (const pid_t member : horde) ::kill(member, SIGKILL);
    Underway();
  }
}

void ReplayTokens(const Target& target) {
  std::string ended;
  {
    RawLane lane(target.directory, false);
    ended = lane.Token();
  }
  RawLane alive(target.directory, false);
  const std::string other = alive.Token();
  for (;;) {
    for (const std::string& token : {ended, other, RandomBytes(16), std::string(16, '\0'), std::string()}) {
      RawLane lane(target.directory, false);
      const std::string own = lane.Token();
      if (own.empty()) continue;  // This attacker has filled the door.
      if (lane.Hello(token).status().code() == kSuccess) Broken("a token of another connection was accepted");
      Underway();
    }
  }
}

// The session's socket outlives the process that opened it: its number may belong to another process by then.
void InheritSessions(const Target& target) {
  for (;;) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) continue;
    const UniqueFd mine(pair[0]), theirs(pair[1]);
    const pid_t owner = ForkWithMe();
    if (owner == 0) {
      RawLane lane(target.directory);
      const std::array<std::byte, 1> byte{};
      const std::array<int, 1> fds{lane.fd()};
      static_cast<void>(SendWithFds(theirs.get(), byte, fds));
      ::pause();
    }
    std::array<std::byte, 1> byte;
    Result<FdMessage> inherited = ReceiveWithFds(mine.get(), byte, true);
    ::kill(owner, SIGKILL);
    ::waitpid(owner, nullptr, 0);
    if (!inherited.ok() || inherited->fds.empty()) continue;
    // The broker learns of the end of the owner at once; an operation that comes later is not served.
    const int fd = inherited->fds[0].get();
    pb::ClientMessage list = ListAdapters();
    list.set_op_id(99);
    const std::string datagram = RawLane::Datagram(list.SerializeAsString());
    timeval patience{20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char answer[256];
    ssize_t got = 1;
    for (int i = 0; i < 1000 && got > 0; ++i) {
      ::usleep(1000);
      got = ::send(fd, datagram.data(), datagram.size(), MSG_NOSIGNAL);
      if (got > 0) got = ::recv(fd, answer, sizeof answer, 0);
    }
    if (got > 0)
      Broken("a session serves another process for a thousand operations after the end of its own");
    Underway();
  }
}

void NeverRead(const Target& target) {
  for (;;) {
    RawLane lane(target.directory);
    if (!lane.open()) ::usleep(1000);
    // The broker ends the session when its queue is full.
    for (int i = 0; i < 200'000 && lane.open() && !Gone(lane.fd()); ++i) {
      if (!lane.Send(ListAdapters(), false)) {
        if (errno != EAGAIN) break;
        ::usleep(1000);
      }
      Underway();
    }
  }
}

void NeverAcknowledge(const Target& target) {
  for (;;) {
    std::vector<std::unique_ptr<RawLane>> lanes;
    for (int i = 0; i < 50; ++i) {
      lanes.push_back(std::make_unique<RawLane>(target.directory));
      lanes.back()->acknowledge = false;
      static_cast<void>(lanes.back()->QueuePair());  // With a page of counters.
    }
    Underway();
    for (int i = 0; i < 100; ++i) {
      for (const auto& lane : lanes) static_cast<void>(lane->QueuePair());
      ::usleep(10'000);
    }
  }
}

void SendDescriptors(const Target& target) {
  std::array<int, 253> fds;
  fds.fill(0);
  for (;;) {
    const RawLane lane(target.directory);
    for (int i = 0; i < 64 && lane.open(); ++i) {
      char byte[16] = {};
      iovec part{byte, sizeof byte};
      std::vector<char> control(CMSG_SPACE(sizeof fds));
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof fds);
      std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
      if (::sendmsg(lane.fd(), &message, MSG_NOSIGNAL) < 0) break;
    }
    Underway();
  }
}

void SendGarbage(const Target& target) {
  for (unsigned seed = 1;; ++seed) {
    RawLane lane(target.directory, seed % 2 == 0);
    const std::size_t size = 1 + static_cast<unsigned char>(RandomBytes(1)[0]) * 16;
    // Random bytes; then a message whose beginning is valid.
    static_cast<void>(lane.SendBytes(RandomBytes(size)));
    RawLane other(target.directory);
    static_cast<void>(other.SendBytes(RawLane::Datagram(RandomBytes(size))));
    Underway();
  }
}

void NameEverything(const Target& target) {
  for (int i = 0;; ++i) {
    const std::string number = std::to_string(::getpid()) + "-" + std::to_string(i);
    const RawLane named(target.directory, true, "app-" + number);
    const RawLane injected(target.directory, true, "a\"}\nndbroker_ready 0 #{" + number);
    std::string control = RandomBytes(40);
    for (char& c : control) c = static_cast<char>(c & 0x1F);
    const RawLane bytes(target.directory, true, control);
    if (bytes.open() || injected.open()) Broken("an application name with forbidden characters was accepted");
    Underway();
  }
}

// A program that listens where the library looks for the broker would get its messages.
void ImpersonateTheBroker(const Target& target) {
  for (;;) {
    for (const std::string& name :
         {ClientSocketPath(target.directory, kLaneSocketName), target.directory + "/client/other.sock",
          target.directory + "/lane.sock"}) {
      const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path, name.data(), name.size());
      const bool made = ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      if (::geteuid() != 0 && (made || ::unlink(name.c_str()) == 0))
        Broken("a socket in the broker's directory: " + name);
      if (made) ::unlink(name.c_str());
    }
    Underway();
    ::usleep(1000);
  }
}

void ScrapeInSilence(const Target& target) {
  std::vector<UniqueFd> open(200);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kScrapePort);
  address.sin_addr.s_addr = htonl(0x7f000000u + static_cast<unsigned>(target.host));
  for (;;) {
    for (UniqueFd& fd : open) {
      if (fd && !Gone(fd.get())) continue;
      fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
    }
    Underway();
    ::usleep(1000);
  }
}

void FloodResets(const Target& target) {
  Flood(target, h2::Resets(h2::kSession));
}
void FloodSettings(const Target& target) {
  Flood(target, h2::Repeated(h2::Frame(4, 0, 0, "")));
}
void FloodPings(const Target& target) {
  Flood(target, h2::Repeated(h2::Frame(6, 0, 0, "8 bytes.")));
}
void FloodContinuations(const Target& target) {
  Flood(target, h2::Continuations());
}
void FloodEmptyData(const Target& target) {
  Flood(target, h2::EmptyData());
}
void FloodResetsAfterHello(const Target& target) {
  RawLane lane(target.directory, false);
  pb::ClientMessage hello;
  hello.set_op_id(1);
  hello.mutable_hello()->set_token(lane.Token());
  hello.mutable_hello()->set_min_version(1);
  hello.mutable_hello()->set_max_version(1);
  const std::string bytes = hello.SerializeAsString();
  const std::string message = std::string("\0\0\0\0", 4) + static_cast<char>(bytes.size()) + bytes;
  Flood(target, h2::Resets(h2::kSession),
        h2::Frame(1, 4, 1, h2::HeaderBlock(h2::kSession)) + h2::Frame(0, 0, 1, message));
}

}  // namespace nd::hostile
