// SPDX-License-Identifier: Apache-2.0
// Real sockets in every state that a giver can bring them to, and the judgement of facts.
#include "base/os/given_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "base/os/socket.h"

namespace nd::os {
namespace {

std::uint64_t Own() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return NetworkOf(fd.get());
}

std::string Judge(const UniqueFd& fd) {
  return WhyUnfit(FactsOf(fd.get()), Own());
}

class GivenSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Own() == 0) GTEST_SKIP() << "the kernel does not report network namespaces of sockets (Linux 5.14)";
  }
};

TEST_F(GivenSocketTest, FreshSocketsAreFit) {
  for (const GivenKind kind : {GivenKind::kTcp4, GivenKind::kTcp6, GivenKind::kRoutes}) {
    const UniqueFd fd = MakeGiven(kind);
    if (!fd && kind == GivenKind::kTcp6) continue;
    EXPECT_EQ(FactsOf(fd.get()).kind, kind);
    EXPECT_EQ(Judge(fd), "");
    EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  }
}

TEST_F(GivenSocketTest, OtherSocketsThanTcpAreUnfit) {
  EXPECT_NE(Judge(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))).find("not a socket"),
            std::string::npos);
  for (const auto& [family, type, protocol] : {std::tuple(AF_INET, SOCK_DGRAM, 0),
                                               {AF_INET6, SOCK_DGRAM, 0},
                                               {AF_UNIX, SOCK_STREAM, 0},
                                               {AF_NETLINK, SOCK_RAW, NETLINK_GENERIC},
                                               {AF_INET, SOCK_STREAM, IPPROTO_MPTCP}}) {
    const UniqueFd fd(::socket(family, type | SOCK_CLOEXEC, protocol));
    if (!fd) continue;
    EXPECT_NE(Judge(fd).find("of another kind"), std::string::npos) << family << " " << type;
  }
}

TEST_F(GivenSocketTest, UsedSocketsAreUnfit) {
  const Address loopback = Address::V4({127, 0, 0, 1});
  const UniqueFd listening = MakeGiven(GivenKind::kTcp4);
  ASSERT_TRUE(ListenOnGiven(listening.get(), loopback).ok());
  EXPECT_NE(Judge(listening).find("listens already"), std::string::npos);

  const UniqueFd bound = MakeGiven(GivenKind::kTcp4);
  ASSERT_TRUE(BindGiven(bound.get(), loopback).ok());
  EXPECT_NE(Judge(bound).find("is bound already"), std::string::npos);

  sockaddr_storage to{};
  const auto length = static_cast<socklen_t>(LocalAddress(listening.get()).ToSockaddr(&to));
  ::connect(bound.get(), reinterpret_cast<const sockaddr*>(&to), length);
  EXPECT_NE(Judge(bound).find("is connected already"), std::string::npos);

  // Half way: the other side does not answer.
  const UniqueFd routes = MakeGiven(GivenKind::kRoutes);
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  ASSERT_EQ(::bind(routes.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  EXPECT_NE(Judge(routes).find("is bound already"), std::string::npos);
}

TEST_F(GivenSocketTest, SocketsOfAnotherNamespaceAreUnfit) {
  GivenFacts facts = FactsOf(MakeGiven(GivenKind::kTcp4).get());
  EXPECT_EQ(WhyUnfit(facts, facts.network), "");
  EXPECT_NE(WhyUnfit(facts, facts.network + 1).find("of another network namespace"), std::string::npos);
  facts.network = 0;
  EXPECT_NE(WhyUnfit(facts, 0).find("of another network namespace"), std::string::npos);
}

TEST_F(GivenSocketTest, AnotherProtocolOnTopIsUnfit) {
  GivenFacts facts = FactsOf(MakeGiven(GivenKind::kTcp4).get());
  facts.layered = true;
  EXPECT_NE(WhyUnfit(facts, facts.network).find("another protocol"), std::string::npos);
}

TEST_F(GivenSocketTest, TheBindOfTheKernelDecidesAboutAddresses) {
  const UniqueFd fd = MakeGiven(GivenKind::kTcp4);
  EXPECT_EQ(BindGiven(fd.get(), Address::V4({192, 0, 2, 1})).code(), StatusCode::kInvalidAddress);
  const UniqueFd first = MakeGiven(GivenKind::kTcp4), second = MakeGiven(GivenKind::kTcp4);
  ASSERT_TRUE(ListenOnGiven(first.get(), Address::V4({127, 0, 0, 1})).ok());
  EXPECT_EQ(ListenOnGiven(second.get(), LocalAddress(first.get())).code(), StatusCode::kSharingViolation);
}

}  // namespace
}  // namespace nd::os
