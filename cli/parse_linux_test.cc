// SPDX-License-Identifier: Apache-2.0
// ndctl and sockets of which nobody answers.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "base/unique_fd.h"
#include "cli/testing/run_ndctl.h"
#include "tests/testing/process.h"

namespace nd::cli {
namespace {

TEST(CommandLine, PathTooLongForASocketIsAUsageError) {
  EXPECT_EQ(2, Ndctl({"status", "--address", std::string(200, 'x')}).exit);
}

class SocketTest : public ::testing::Test {
 protected:
  SocketTest() {
    fd_.reset(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (directory_ + "/admin.sock").c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(0, bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  }
  ~SocketTest() override { nd::testing::RemoveTree(directory_); }
  const std::string directory_ = nd::testing::MakeTempDirectory("nd-parse-");
  UniqueFd fd_;
};

TEST_F(SocketTest, SocketWithoutAServerIsReportedAsLeftOver) {
  const Ran ran = Ndctl({"status", "--address", directory_});
  EXPECT_EQ(4, ran.exit);
  EXPECT_NE(std::string::npos, ran.err.find("left over")) << ran.err;
}

TEST_F(SocketTest, BrokerThatDoesNotAnswerIsATimeout) {
  ASSERT_EQ(0, listen(fd_.get(), 5));
  const Ran ran = Ndctl({"status", "--address", directory_, "--timeout", "0.3"});
  EXPECT_EQ(6, ran.exit) << ran.err;
}

}  // namespace
}  // namespace nd::cli
