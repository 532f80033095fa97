// SPDX-License-Identifier: Apache-2.0
// The broker's directory: environment first, then the user's own if it is really theirs, then the system's.
#include "base/locate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/unique_fd.h"

namespace nd {
namespace {

class LocateTest : public ::testing::Test {
 protected:
  LocateTest() {
    char name[] = "/tmp/nd-locate-XXXXXX";
    root_ = mkdtemp(name);
    unsetenv("NDBROKER_DIR");
    setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);
    own_ = root_ + "/ndbroker";
    mkdir(own_.c_str(), 0700);
  }
  ~LocateTest() override {
    unlink((own_ + "/broker.sock").c_str());
    rmdir(own_.c_str());
    rmdir(root_.c_str());
    unsetenv("XDG_RUNTIME_DIR");
  }

  void MakeSocket() {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (own_ + "/broker.sock").c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(0, bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  }

  std::string root_, own_;
};

TEST_F(LocateTest, TheEnvironmentDecides) {
  setenv("NDBROKER_DIR", "/nowhere/at/all", 1);
  EXPECT_EQ("/nowhere/at/all", FindBrokerDirectory());
  EXPECT_EQ("/nowhere/at/all", OwnBrokerDirectory());
  unsetenv("NDBROKER_DIR");
}

TEST_F(LocateTest, AnEmptyVariableIsNoChoice) {
  setenv("NDBROKER_DIR", "", 1);
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
  unsetenv("NDBROKER_DIR");
}

TEST_F(LocateTest, WithoutABrokerOfOnesOwnTheSystemsIsUsed) {
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
}

TEST_F(LocateTest, OnesOwnBrokerComesFirst) {
  if (geteuid() == 0) GTEST_SKIP() << "root's own broker is the system's";
  MakeSocket();
  EXPECT_EQ(own_, FindBrokerDirectory());
}

TEST_F(LocateTest, ADirectoryThatOthersMayWriteIsNotTrusted) {
  MakeSocket();
  chmod(own_.c_str(), 0777);
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
}

TEST_F(LocateTest, APlainFileIsNoSocket) {
  UniqueFd fd(open((own_ + "/broker.sock").c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
}

TEST_F(LocateTest, RootOwnsTheSystemsDirectory) {
  if (geteuid() != 0) {
    EXPECT_EQ(own_, OwnBrokerDirectory());
    unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ("/tmp/ndbroker-" + std::to_string(geteuid()), OwnBrokerDirectory());
  } else {
    EXPECT_EQ("/run/ndbroker", OwnBrokerDirectory());
  }
}

}  // namespace
}  // namespace nd
