// SPDX-License-Identifier: Apache-2.0
// Valid and invalid sockets of a service manager.
#include "base/os/inherited_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace nd::os {
namespace {

class InheritedSocketsTest : public ::testing::Test {
 protected:
  InheritedSocketsTest() {
    char name[] = "/tmp/nd-inherited-XXXXXX";
    directory_ = ::mkdtemp(name);
    wanted_ = {{directory_ + "/lane.sock", SocketKind::kMessages},
               {directory_ + "/admin.sock", SocketKind::kStream}};
  }
  ~InheritedSocketsTest() override { std::filesystem::remove_all(directory_); }

  UniqueFd Bound(const std::string& name, int type, bool listening) {
    UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = directory_ + "/" + name;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (listening) {
      EXPECT_EQ(::listen(fd.get(), 8), 0);
    }
    return fd;
  }
  Result<InheritedSockets> Check(UniqueFd one, UniqueFd other = {}) {
    std::vector<InheritedDescriptor> descriptors;
    descriptors.push_back({"client", std::move(one)});
    if (other) descriptors.push_back({"admin", std::move(other)});
    return InheritedSockets::Check(std::move(descriptors), wanted_);
  }
  // Returns the message of the refusal.
  std::string Refusal(UniqueFd one, UniqueFd other = {}) {
    const Result<InheritedSockets> checked = Check(std::move(one), std::move(other));
    return checked.ok() ? "accepted" : checked.status().message();
  }
  static void ExpectSays(const std::string& message, std::initializer_list<const char*> parts) {
    for (const char* part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks " << part;
  }

  std::string directory_;
  std::vector<InheritedSockets::Wanted> wanted_;
};

TEST_F(InheritedSocketsTest, ValidSocketsAreFoundByTheirPath) {
  UniqueFd lane = Bound("lane.sock", SOCK_SEQPACKET, true), admin = Bound("admin.sock", SOCK_STREAM, true);
  const int lane_number = lane.get();
  // The names of the socket units are swapped, which has no effect.
  Result<InheritedSockets> sockets = Check(std::move(admin), std::move(lane));
  ASSERT_TRUE(sockets.ok()) << sockets.status().message();
  const UniqueFd taken = sockets->Take(directory_ + "/lane.sock");
  EXPECT_EQ(taken.get(), lane_number);
  EXPECT_NE(::fcntl(taken.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_FALSE(sockets->Take(directory_ + "/lane.sock"));
  EXPECT_FALSE(sockets->Take(directory_ + "/metrics.sock"));
  EXPECT_FALSE(sockets->empty());
  EXPECT_TRUE(sockets->Take(directory_ + "/admin.sock"));
  EXPECT_TRUE(sockets->empty());
}

TEST_F(InheritedSocketsTest, UnknownPathIsReportedWithTheKnownPaths) {
  ExpectSays(Refusal(Bound("other.sock", SOCK_STREAM, true)),
             {"\"client\"", "/other.sock", "/lane.sock", "/admin.sock", "correct ListenStream="});
}

TEST_F(InheritedSocketsTest, WrongTypeIsReportedWithTheRightSetting) {
  ExpectSays(
      Refusal(Bound("lane.sock", SOCK_STREAM, true)),
      {"/lane.sock, a stream socket", "must be a sequential packet socket", "ListenSequentialPacket="});
  ExpectSays(Refusal(Bound("admin.sock", SOCK_DGRAM, false)), {"a datagram socket", "ListenStream="});
}

TEST_F(InheritedSocketsTest, SocketThatDoesNotListenIsReported) {
  ExpectSays(Refusal(Bound("admin.sock", SOCK_STREAM, false)), {"does not listen", "Accept=no"});
}

TEST_F(InheritedSocketsTest, DescriptorThatIsNotAUnixSocketIsReported) {
  ExpectSays(Refusal(UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))),
             {"no Unix socket", "[[adapter]]"});
  ExpectSays(Refusal(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))), {"is no socket"});
  ExpectSays(Refusal(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))), {"has no path"});
}

TEST_F(InheritedSocketsTest, TwoSocketsOfOnePathAreRefused) {
  UniqueFd lane = Bound("lane.sock", SOCK_SEQPACKET, true);
  UniqueFd same(::fcntl(lane.get(), F_DUPFD_CLOEXEC, 3));
  ExpectSays(Refusal(std::move(lane), std::move(same)), {"\"admin\"", "so is one before it"});
}

}  // namespace
}  // namespace nd::os
