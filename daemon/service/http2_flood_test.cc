// SPDX-License-Identifier: Apache-2.0
// HTTP/2 floods of another user against broker.sock of a real broker: its memory stays bounded, and an honest
// client on the lane continues.
#include <grp.h>
#include <poll.h>

#include <atomic>
#include <fstream>
#include <span>

#include "daemon/service/service_fixture.h"

namespace nd::service {
namespace {

constexpr std::size_t kConnections = 8;
constexpr auto kAttack = seconds(3);
constexpr std::uint64_t kAllowedGrowth = 32 << 20;
// Attackers and broker share two cores with the honest client, and possibly with other tests.
constexpr double kShareOfIdle = 0.05;

std::string Frame(int kind, int flags, std::uint32_t stream, const std::string& payload) {
  const std::size_t n = payload.size();
  std::string out;
  for (const std::size_t byte :
       {n >> 16, n >> 8, n, std::size_t(kind), std::size_t(flags), std::size_t{stream >> 24},
        std::size_t{stream >> 16}, std::size_t{stream >> 8}, std::size_t{stream}}) {
    out += static_cast<char>(byte);
  }
  return out + payload;
}
// RFC 7541: literals without indexing, for names and values of fewer than 127 bytes.
std::string HeaderBlock(const std::string& path) {
  std::string out = "\x83\x86";  // :method POST, :scheme http
  const std::pair<std::string, std::string> fields[] = {
      {":path", path}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}};
  for (const auto& [name, value] : fields) {
    out += '\0';
    out += static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
  }
  return out;
}
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "");
const std::string kSession = "/ndbroker.v1.Broker/Session";

// Returns the next bytes of the flood on a connection; `stream` is the last stream that began.
using Flood = std::function<std::string(std::uint32_t* stream)>;

Flood Resets(const std::string& path) {
  return [block = HeaderBlock(path)](std::uint32_t* stream) {
    *stream += 2;
    return Frame(1, 4, *stream, block) + Frame(3, 0, *stream, std::string("\0\0\0\x08", 4));
  };
}
Flood Repeated(const std::string& frame) {
  return [frame](std::uint32_t*) { return frame; };
}
Flood Continuations() {
  return [](std::uint32_t* stream) {
    const bool first = *stream < 3;
    *stream = 3;
    return first ? Frame(1, 0, 3, HeaderBlock(kSession)) : Frame(9, 0, 3, std::string(1000, '\0'));
  };
}
Flood EmptyData() {
  return [](std::uint32_t* stream) {
    const bool first = *stream < 3;
    *stream = 3;
    return first ? Frame(1, 4, 3, HeaderBlock(kSession)) : Frame(0, 0, 3, "");
  };
}

// One connection, opened again each time it is ended.
class Attacker {
 public:
  Attacker(std::string path, Flood flood, std::string opening = {})
      : path_(std::move(path)), flood_(std::move(flood)), opening_(std::move(opening)) {}
  // Waits until the broker reads, so that the flood itself takes little processor time.
  pollfd Wait() const { return {fd_.get(), POLLIN | POLLOUT, 0}; }
  void Step() {
    if (!fd_ && !Connect()) return;
    static std::array<char, 65536> answer;
    while (::recv(fd_.get(), answer.data(), answer.size(), MSG_DONTWAIT) > 0) continue;
    for (int i = 0; i < 100; ++i) {
      while (out_.size() < 32'768) out_ += flood_(&stream_);
      const ssize_t n = ::send(fd_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return fd_.reset();
      out_.erase(0, static_cast<std::size_t>(n));
    }
  }

 private:
  bool Connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
    fd_ = std::move(fd);
    out_ = kPreface + opening_;
    stream_ = 1;
    return true;
  }
  const std::string path_;
  const Flood flood_;
  const std::string opening_;
  UniqueFd fd_;
  std::string out_;
  std::uint32_t stream_ = 1;
};

class Http2FloodTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    ::chmod(directory_.c_str(), 0755);
  }
  std::uint64_t Memory() const {
    std::ifstream file("/proc/" + std::to_string(daemon_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6)) * 1024;
    }
    return 0;
  }
  // The operations of the honest client in one second, and the peak memory of the broker.
  struct Second {
    std::uint64_t operations = 0, memory = 0;
  };
  Second Work(RawLane& lane) {
    Second second;
    const auto end = std::chrono::steady_clock::now() + seconds(1);
    while (std::chrono::steady_clock::now() < end) {
      pb::ClientMessage ask;
      ask.set_op_id(++op_);
      ask.mutable_list_adapters();
      if (!lane.SendMessage(ask) || lane.ReceiveMessage().completion().op_id() != op_) break;
      if (++second.operations % 64 == 0) second.memory = std::max(second.memory, Memory());
    }
    second.memory = std::max(second.memory, Memory());
    return second;
  }
  // Runs the attack in a child process, so that it can have another uid. The child reports nothing.
  pid_t Attack(const std::function<Attacker()>& make) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (::getuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0)) {
      ::_exit(1);
    }
    std::vector<Attacker> attackers;
    for (std::size_t i = 0; i < kConnections; ++i) attackers.push_back(make());
    const auto end = std::chrono::steady_clock::now() + kAttack;
    while (std::chrono::steady_clock::now() < end) {
      std::array<pollfd, kConnections> waits;
      for (std::size_t i = 0; i < kConnections; ++i) {
        attackers[i].Step();
        waits[i] = attackers[i].Wait();
      }
      ::poll(waits.data(), waits.size(), 10);
    }
    ::_exit(0);
  }
  void Survives(const std::function<Attacker()>& make) {
    RawLane lane(directory_);
    ASSERT_TRUE(lane.SendMessage(HelloMessageWithId(lane.Token())));
    ASSERT_EQ(lane.ReceiveMessage().completion().status().code(), 0u);
    const Second idle = Work(lane);
    ASSERT_GT(idle.operations, 0u);
    const pid_t attacker = Attack(make);
    Second worst;  // The average of operations, and the peak of memory.
    for (int i = 0; i < kAttack / seconds(1); ++i) {
      const Second now = Work(lane);
      worst.operations += now.operations / static_cast<std::uint64_t>(kAttack / seconds(1));
      worst.memory = std::max(worst.memory, now.memory);
    }
    int status = -1;
    ::waitpid(attacker, &status, 0);
    EXPECT_EQ(status, 0);
    RecordProperty("grown_KiB",
                   static_cast<int>((worst.memory - std::min(worst.memory, idle.memory)) / 1024));
    RecordProperty("idle_operations", static_cast<int>(idle.operations));
    RecordProperty("attacked_operations", static_cast<int>(worst.operations));
    std::printf("grown by %d KiB, %d of %d operations a second\n",
                static_cast<int>((worst.memory - std::min(worst.memory, idle.memory)) / 1024),
                static_cast<int>(worst.operations), static_cast<int>(idle.operations));
    EXPECT_LT(worst.memory, idle.memory + kAllowedGrowth);
    EXPECT_GT(static_cast<double>(worst.operations), kShareOfIdle * static_cast<double>(idle.operations));
  }
  static pb::ClientMessage HelloMessageWithId(const std::string& token) {
    pb::ClientMessage hello = HelloMessage(token);
    hello.set_op_id(1);
    return hello;
  }
  std::string socket() const { return ClientSocketPath(directory_, kBrokerSocketName); }
  std::uint64_t op_ = 1;
};

TEST_F(Http2FloodTest, StreamsThatAreResetAtOnceAreBounded) {
  Survives([this] { return Attacker(socket(), Resets(kSession)); });
}
TEST_F(Http2FloodTest, StreamsOfUnknownMethodsThatAreResetAtOnceAreBounded) {
  Survives([this] { return Attacker(socket(), Resets("/nobody/Knows")); });
}
TEST_F(Http2FloodTest, HeadersThatNeverEndAreBounded) {
  Survives([this] { return Attacker(socket(), Continuations()); });
}
TEST_F(Http2FloodTest, SettingsFramesAreBounded) {
  Survives([this] { return Attacker(socket(), Repeated(Frame(4, 0, 0, ""))); });
}
TEST_F(Http2FloodTest, PingsAreBounded) {
  Survives([this] { return Attacker(socket(), Repeated(Frame(6, 0, 0, "8 bytes."))); });
}
TEST_F(Http2FloodTest, EmptyDataFramesAreBounded) {
  Survives([this] { return Attacker(socket(), EmptyData()); });
}
// A client with a valid Hello is limited, too.
TEST_F(Http2FloodTest, ResetsAfterHelloAreBounded) {
  Survives([this] {
    auto lane = std::make_shared<RawLane>(directory_);  // Lives as long as the attacker.
    const std::string hello = HelloMessageWithId(lane->Token()).SerializeAsString();
    const std::string message = std::string("\0\0\0\0", 4) + static_cast<char>(hello.size()) + hello;
    const Flood resets = Resets(kSession);
    return Attacker(
        socket(), [lane, resets](std::uint32_t* stream) { return resets(stream); },
        Frame(1, 4, 1, HeaderBlock(kSession)) + Frame(0, 0, 1, message));
  });
}

}  // namespace
}  // namespace nd::service
