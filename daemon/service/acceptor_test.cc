// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/acceptor.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/os/readiness.h"
#include "daemon/ops/logging.h"
#include "daemon/server/runtime_dir.h"

namespace nd::service {
namespace {

// A clock of which each accepted connection takes a millisecond.
struct ClockOfWork final : Clock {
  Time Now() const override { return now; }
  Time now{};
};

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() {
    char name[] = "/tmp/ndacceptXXXXXX";
    directory_ = ::mkdtemp(name);
    path_ = directory_ + "/s";
  }
  ~AcceptorTest() override { std::filesystem::remove_all(directory_); }

  UniqueFd Connect() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  // `taken` counts the accepted connections.
  std::unique_ptr<Acceptor> AcceptSlowly(EventLoop& loop, ClockOfWork& clock, int* taken) {
    return std::make_unique<Acceptor>(loop, "test", door_,
                                      ListenUnix(path_, os::SocketKind::kStream, 0600, std::nullopt).value(),
                                      [&clock, taken](UniqueFd, const Peer&) {
                                        ++*taken;
                                        clock.now += std::chrono::milliseconds(1);
                                      });
  }
  std::vector<UniqueFd> ConnectMany(int count) {
    std::vector<UniqueFd> clients;
    while (count-- > 0) clients.push_back(Connect());
    return clients;
  }
  template <typename Condition>
  bool RunUntil(Condition done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done() && std::chrono::steady_clock::now() < deadline)
      loop_.RunOnce(std::chrono::milliseconds(10));
    return done();
  }

  std::string directory_, path_;
  SystemClock clock_;
  EventLoop loop_{clock_};
  ops::Door door_;
};

TEST_F(AcceptorTest, NamesThePeer) {
  std::vector<Peer> peers;
  Acceptor acceptor(loop_, "test", door_,
                    ListenUnix(path_, os::SocketKind::kStream, 0600, std::nullopt).value(),
                    [&](UniqueFd, const Peer& peer) { peers.push_back(peer); });
  const UniqueFd a = Connect(), b = Connect();
  ASSERT_TRUE(RunUntil([&] { return peers.size() == 2; }));
  EXPECT_EQ(peers[0].pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(peers[0].uid, ::getuid());
  EXPECT_NE(peers[0].cookie, peers[1].cookie);
}

TEST_F(AcceptorTest, RoundIsBoundedInTime) {
  ClockOfWork clock;
  EventLoop loop(clock);
  int taken = 0;
  const auto acceptor = AcceptSlowly(loop, clock, &taken);
  const std::vector<UniqueFd> clients = ConnectMany(4);
  for (int round = 1; round <= 4; ++round) {
    loop.RunOnce(Duration::zero());
    EXPECT_EQ(taken, round) << "although nothing else waits";
  }
}

TEST_F(AcceptorTest, NewClientsTakeTurnsWithUsers) {
  ClockOfWork clock;
  EventLoop loop(clock);
  int taken = 0, taken_before = 0, most = 0;
  const auto acceptor = AcceptSlowly(loop, clock, &taken);
  const std::vector<UniqueFd> clients = ConnectMany(32);
  const UniqueFd user(::eventfd(1, EFD_CLOEXEC));
  const auto readable = [&](std::uint32_t) {
    most = std::max(most, taken - std::exchange(taken_before, taken));
  };
  ASSERT_TRUE(loop.Add(user.get(), os::kReadable, readable, Account{1000}));
  for (int i = 0; i < 1000 && taken < 32; ++i) loop.RunOnce(Duration::zero());
  EXPECT_EQ(taken, 32);
  EXPECT_EQ(most, 1) << "new clients between two turns of the user";
}

TEST_F(AcceptorTest, RecoversFromDescriptorExhaustion) {
  // UBSan checks the type of an object at its first use through a pipe. No descriptor is left for that later.
  RunUntil([this] { return loop_.RunOnce(Duration::zero()), true; });
  ops::LogWarning("test", "descriptors are about to run out");
  std::vector<UniqueFd> accepted;
  Acceptor acceptor(loop_, "test", door_,
                    ListenUnix(path_, os::SocketKind::kStream, 0600, std::nullopt).value(),
                    [&](UniqueFd fd, const Peer&) { accepted.push_back(std::move(fd)); });
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  // The lowest free number is one below the limit, so exactly one more descriptor fits.
  const UniqueFd next(::dup(0));
  rlimit tight = old;
  tight.rlim_cur = static_cast<rlim_t>(next.get()) + 2;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  // The first connection is accepted. The second finds no descriptor and is closed by means of the reserve.
  char byte;
  EXPECT_TRUE(RunUntil(
      [&] { return accepted.size() == 1 && ::recv(clients[1].get(), &byte, 1, MSG_DONTWAIT) == 0; }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_GE(door_.errors[static_cast<std::size_t>(ops::AcceptError::kDescriptors)], 1u);
  EXPECT_EQ(door_.errors[static_cast<std::size_t>(ops::AcceptError::kOther)], 0u);
  EXPECT_TRUE(RunUntil([&] { return accepted.size() == 2; })) << "the third waited and is served";
  clients.push_back(Connect());
  EXPECT_TRUE(RunUntil([&] { return accepted.size() == 3; })) << "and so is everybody after it";
}

// A socket without credentials stands for a connection whose other end the kernel cannot identify.
TEST_F(AcceptorTest, PeerWithoutCredentialsIsRefusedAndCounted) {
  UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(tcp.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(tcp.get(), 4), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(tcp.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  int taken = 0;
  Acceptor acceptor(loop_, "test", door_, std::move(tcp), [&](UniqueFd, const Peer&) { ++taken; });
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  RunUntil([&] { return taken != 0 || door_.refused != ops::Door().refused; });
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(door_.refused[static_cast<std::size_t>(ops::Refusal::kCredentials)], 1u);
}

TEST_F(AcceptorTest, SocketFileIsReplacedOnlyWhenNoBrokerAnswers) {
  {
    const UniqueFd first = ListenUnix(path_, os::SocketKind::kStream, 0600, std::nullopt).value();
    const Result<UniqueFd> second = ListenUnix(path_, os::SocketKind::kStream, 0600, std::nullopt);
    EXPECT_EQ(second.code(), StatusCode::kSharingViolation);
    EXPECT_EQ(second.status().message(),
              "another program serves " + path_ + "; stop it or give another --dir");
  }
  EXPECT_TRUE(ListenUnix(path_, os::SocketKind::kStream, 0660, std::nullopt).ok()) << "a left-over file";
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0660));
  const Result<UniqueFd> file = ListenUnix("/etc/passwd", os::SocketKind::kStream, 0600, std::nullopt);
  EXPECT_EQ(file.status().message(),
            "/etc/passwd exists and is not a socket; remove it or give another --dir");
  const Result<UniqueFd> lengthy =
      ListenUnix("/tmp/" + std::string(200, 'x'), os::SocketKind::kStream, 0600, std::nullopt);
  EXPECT_NE(lengthy.status().message().find("is too long for a socket"), std::string::npos);
}

TEST_F(AcceptorTest, DirectoryHasOnlyOneBroker) {
  const UniqueFd lock = LockRuntimeDirectory(directory_).value();
  const Result<UniqueFd> second = LockRuntimeDirectory(directory_);
  EXPECT_EQ(second.code(), StatusCode::kSharingViolation);
  EXPECT_EQ(second.status().message(), "another ndbrokerd (pid " + std::to_string(::getpid()) +
                                           ") already serves " + directory_ +
                                           "; stop it or give another --dir");
  const std::string open_to_all = directory_ + "/w";
  std::filesystem::create_directory(open_to_all);
  std::filesystem::permissions(open_to_all, std::filesystem::perms(0777));
  EXPECT_EQ(LockRuntimeDirectory(open_to_all).code(), StatusCode::kAccessDenied);
  std::filesystem::create_symlink(directory_, directory_ + "/link");
  EXPECT_EQ(LockRuntimeDirectory(directory_ + "/link").code(), StatusCode::kUnsuccessful);
}

}  // namespace
}  // namespace nd::service
