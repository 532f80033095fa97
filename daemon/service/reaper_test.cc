// SPDX-License-Identifier: Apache-2.0
// Sockets that a client set to linger toward a peer that does not read. Without a reaper the last close
// waits.
#include "daemon/service/reaper.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace nd::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A connection whose near end lingers for a minute and has more to send than the far end takes.
struct LingeringPair {
  LingeringPair() {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    near.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(near.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    far.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger minute{1, 60};
    EXPECT_EQ(::setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &minute, sizeof minute), 0);
    static std::array<char, 65536> bytes{};
    while (::send(near.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    EXPECT_EQ(errno, EAGAIN);
  }
  // Returns how the far end sees the close: 0 after all bytes, or ECONNRESET.
  int EndAtFarEnd() {
    static std::array<char, 65536> bytes;
    ssize_t n = 0;
    do {
      n = ::recv(far.get(), bytes.data(), bytes.size(), 0);
    } while (n > 0);
    return n == 0 ? 0 : errno;
  }
  UniqueFd near, far;
};

std::vector<UniqueFd> One(UniqueFd fd) {
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(fd));
  return fds;
}

bool Closes(const Reaper& reaper, std::uint64_t count) {
  const auto deadline = steady_clock::now() + seconds(10);
  while (reaper.state().closed < count) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(Reaper, LingeringSocketIsResetAtOnce) {
  LingeringPair pair;
  Reaper reaper;
  reaper.Close(1, One(std::move(pair.near)));
  EXPECT_TRUE(Closes(reaper, 1));
  EXPECT_EQ(reaper.state().waiting, 0u);
  EXPECT_EQ(pair.EndAtFarEnd(), ECONNRESET);
}

TEST(Reaper, OrderlySocketIsClosedInOrder) {
  LingeringPair pair;
  const linger off{0, 0};
  ASSERT_EQ(::setsockopt(pair.near.get(), SOL_SOCKET, SO_LINGER, &off, sizeof off), 0);
  Reaper reaper;
  reaper.Close(1, One(std::move(pair.near)));
  EXPECT_TRUE(Closes(reaper, 1));
  EXPECT_EQ(pair.EndAtFarEnd(), 0);
  EXPECT_EQ(reaper.state().interrupted, 0u);
}

// The client set SO_LINGER again after the reaper had cleared it, so only the interruption helps.
TEST(Reaper, CloseThatWaitsIsInterrupted) {
  std::vector<LingeringPair> pairs(3);
  Reaper reaper([](int) {});
  const auto started = steady_clock::now();
  for (LingeringPair& pair : pairs) reaper.Close(1, One(std::move(pair.near)));
  EXPECT_TRUE(Closes(reaper, 3));
  EXPECT_GE(steady_clock::now() - started, 3 * Reaper::kLongestClose);
  EXPECT_EQ(reaper.state().interrupted, 3u);
}

TEST(Reaper, UsersTakeTurnsAndAUserWithTooManyGetsNoMore) {
  std::vector<LingeringPair> pairs(8);
  Reaper reaper([](int) {});
  std::vector<UniqueFd> hostile;
  for (LingeringPair& pair : pairs) hostile.push_back(std::move(pair.near));
  while (hostile.size() < Reaper::kMostOfUser + 1) {
    hostile.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  reaper.Close(1, std::move(hostile));
  EXPECT_FALSE(reaper.HasRoom(1));
  EXPECT_TRUE(reaper.HasRoom(2));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  reaper.Close(2, One(UniqueFd(ends[1])));
  char byte;
  EXPECT_EQ(::read(reading.get(), &byte, 1), 0) << "closed when at most one close was before it";
  EXPECT_GE(reaper.state().waiting, pairs.size() - 3);
}

TEST(Reaper, DestructorEndsInTimeDespiteWaitingCloses) {
  std::vector<LingeringPair> pairs(40);
  const auto started = steady_clock::now();
  std::vector<int> left;
  {
    Reaper reaper([](int) {});
    for (LingeringPair& pair : pairs) {
      left.push_back(pair.near.get());
      reaper.Close(1, One(std::move(pair.near)));
    }
  }
  EXPECT_LT(steady_clock::now() - started, Reaper::kPatience + milliseconds(500));
  for (const int fd : left) {
    if (::fcntl(fd, F_GETFD) < 0) continue;
    ResetInsteadOfLingering(fd);
    ::close(fd);
  }
}

}  // namespace
}  // namespace nd::service
