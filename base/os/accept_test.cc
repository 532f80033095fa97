// SPDX-License-Identifier: Apache-2.0
// Real sockets, and a real limit of descriptors.
#include "base/os/accept.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>
#include <vector>

namespace nd::os {
namespace {

class AcceptTest : public ::testing::Test {
 protected:
  AcceptTest() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* const name = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_TRUE(::bind(listener_.get(), name, length) == 0 && ::listen(listener_.get(), 8) == 0 &&
                ::getsockname(listener_.get(), name, &length) == 0);
  }
  UniqueFd Connect() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    return fd;
  }

  sockaddr_in address_{};
  UniqueFd listener_;
};

TEST_F(AcceptTest, ConnectionsAreNonBlockingAndNotInherited) {
  EXPECT_EQ(Accept(listener_.get()).result, Accepted::Result::kNone);
  const UniqueFd client = Connect();
  const Accepted accepted = Accept(listener_.get());
  ASSERT_EQ(accepted.result, Accepted::Result::kConnection);
  EXPECT_NE(::fcntl(accepted.fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(accepted.fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(Accept(-1).result, Accepted::Result::kFailed);
}

TEST_F(AcceptTest, SpareDescriptorRefusesAConnectionWhenNoneIsLeft) {
  SpareDescriptor spare;
  const UniqueFd client = Connect();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // Smaller than every free number, so that no descriptor can be made.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Accepted exhausted = Accept(listener_.get());
  const bool refused_without_room = static_cast<bool>(spare.AcceptToRefuse(listener_.get()));
  spare.Refill();
  const bool refilled_without_room = static_cast<bool>(spare);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(exhausted.result, Accepted::Result::kExhausted);
  EXPECT_EQ(exhausted.error, EMFILE);
  EXPECT_FALSE(refused_without_room);
  EXPECT_FALSE(refilled_without_room);

  spare.Refill();
  ASSERT_TRUE(spare);
  // Every number but that of the spare descriptor is in use.
  none.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<UniqueFd> all;
  while (UniqueFd fd = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))) all.push_back(std::move(fd));
  EXPECT_EQ(Accept(listener_.get()).result, Accepted::Result::kExhausted);
  UniqueFd refused = spare.AcceptToRefuse(listener_.get());
  EXPECT_TRUE(refused);
  refused.reset();
  spare.Refill();
  EXPECT_TRUE(spare);
  all.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  char byte;
  EXPECT_LE(::recv(client.get(), &byte, 1, 0), 0);  // The client notices at once.
}

}  // namespace
}  // namespace nd::os
