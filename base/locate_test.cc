// SPDX-License-Identifier: Apache-2.0
// The directory of the broker: the environment first, then that of the user if it is trustworthy, then that
// of the system.
#include "base/locate.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
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
    std::filesystem::remove_all(root_);
    unsetenv("XDG_RUNTIME_DIR");
  }

  void MakeSocket() {
    mkdir((own_ + "/client").c_str(), 0755);
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, (own_ + "/client/lane.sock").c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(0, bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  }

  std::string root_, own_;
};

TEST_F(LocateTest, EnvironmentComesFirst) {
  setenv("NDBROKER_DIR", "/nowhere/at/all", 1);
  EXPECT_EQ("/nowhere/at/all", FindBrokerDirectory());
  EXPECT_EQ("/nowhere/at/all", OwnBrokerDirectory());
  unsetenv("NDBROKER_DIR");
}

TEST_F(LocateTest, EmptyVariableIsIgnored) {
  setenv("NDBROKER_DIR", "", 1);
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
  unsetenv("NDBROKER_DIR");
}

TEST_F(LocateTest, SystemBrokerIsUsedWithoutABrokerOfTheUser) {
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
}

// A program with more rights than its caller does not let the caller choose its broker. The program is this
// test, started again with the set-user-ID bit; it prints the directory and ends.
TEST_F(LocateTest, ProgramWithMoreRightsThanItsCallerIgnoresTheEnvironment) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program set-user-ID";
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  const std::string program = root_ + "/program";
  std::filesystem::copy_file("/proc/self/exe", program);
  const auto print = [&] {
    const std::string command =
        "NDBROKER_DIR=/chosen/by/the/caller NDBROKER_PRINT_DIRECTORY=1 setpriv --reuid 65534 "
        "--regid 65534 --clear-groups " +
        program;
    FILE* const out = popen(command.c_str(), "r");
    char line[256] = {};
    EXPECT_NE(fgets(line, sizeof line, out), nullptr);
    EXPECT_EQ(pclose(out), 0);
    return std::string(line);
  };
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(print(), "/chosen/by/the/caller\n");
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const std::string directory = print();
  unlink(program.c_str());
  if (directory == "same rights\n") GTEST_SKIP() << "set-user-ID has no effect here";
  EXPECT_EQ(directory, "/run/ndbroker\n");
}

TEST_F(LocateTest, BrokerOfTheUserComesBeforeThatOfTheSystem) {
  if (geteuid() == 0) GTEST_SKIP() << "root's own broker is the system's";
  MakeSocket();
  EXPECT_EQ(own_, FindBrokerDirectory());
}

TEST_F(LocateTest, DirectoryWritableByOthersIsNotTrusted) {
  MakeSocket();
  chmod(own_.c_str(), 0777);
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
}

TEST_F(LocateTest, PlainFileIsNotASocket) {
  UniqueFd fd(open((own_ + "/lane.sock").c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ("/run/ndbroker", FindBrokerDirectory());
}

TEST_F(LocateTest, ClientDirectoryAloneSuffices) {
  EXPECT_EQ(own_ + "/lane.sock", ClientSocketPath(own_, kLaneSocketName)) << "the client directory itself";
  MakeSocket();
  EXPECT_EQ(own_ + "/client/lane.sock", ClientSocketPath(own_, kLaneSocketName));
  EXPECT_EQ(own_ + "/client/broker.sock", ClientSocketPath(own_, kBrokerSocketName));
  EXPECT_EQ(own_ + "/client/lane.sock", ClientSocketPath(own_ + "/client", kLaneSocketName));
  EXPECT_EQ("/nowhere/at/all/lane.sock", ClientSocketPath("/nowhere/at/all", kLaneSocketName));
}

TEST_F(LocateTest, RootUsesTheDirectoryOfTheSystem) {
  if (geteuid() != 0) {
    EXPECT_EQ(own_, OwnBrokerDirectory());
    unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ("/tmp/ndbroker-" + std::to_string(geteuid()), OwnBrokerDirectory());
  } else {
    EXPECT_EQ("/run/ndbroker", OwnBrokerDirectory());
  }
}

// The constructor runs before main(): the program of the test above, when it is started again.
const bool kPrinted = [] {
  if (std::getenv("NDBROKER_PRINT_DIRECTORY") == nullptr) return false;
  const bool asked_for_rights = (std::filesystem::status("/proc/self/exe").permissions() &
                                 std::filesystem::perms::set_uid) != std::filesystem::perms::none;
  std::puts(asked_for_rights && geteuid() == getuid() ? "same rights" : FindBrokerDirectory().c_str());
  std::fflush(stdout);
  _exit(0);
}();

}  // namespace
}  // namespace nd
