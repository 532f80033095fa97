// SPDX-License-Identifier: Apache-2.0
// HTTP/2 floods of another user against broker.sock of a real broker: its memory stays bounded, and an honest
// client on the lane continues.
#include <grp.h>
#include <poll.h>

#include <atomic>
#include <fstream>
#include <span>

#include "daemon/service/service_fixture.h"
#include "tests/testing/http2_floods.h"

namespace nd::service {
namespace {

using namespace nd::testing::http2;  // NOLINT: the floods.

constexpr std::size_t kConnections = 8;
constexpr auto kAttack = seconds(3);
constexpr std::uint64_t kAllowedGrowth = 32 << 20;
// Attackers and broker share two cores with the honest client, and possibly with other tests.
constexpr double kShareOfIdle = 0.05;

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
