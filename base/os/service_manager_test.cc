// SPDX-License-Identifier: Apache-2.0
// Plays systemd's part of its protocol against a real child process or a real socket.
#include "base/os/service_manager.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace nd::os {
namespace {

class ServiceManagerTest : public ::testing::Test {
 protected:
  ServiceManagerTest() {
    Clear();
    path_ = std::string("@nd-service-manager-test-") + std::to_string(::getpid());
    socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, path_.data() + 1, path_.size() - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size())),
              0);
  }
  ~ServiceManagerTest() override { Clear(); }

  static void Clear() {
    for (const char* name :
         {"NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
      ::unsetenv(name);
    }
  }
  static void Set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  std::string Received() {
    std::array<char, 4096> text;
    const ssize_t n = ::recv(socket_.get(), text.data(), text.size(), 0);
    return n < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(n));
  }

  std::string path_;
  UniqueFd socket_;
};

TEST_F(ServiceManagerTest, WithoutAServiceManagerEveryCallDoesNothing) {
  Result<ServiceManager> manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok());
  EXPECT_FALSE(manager->present());
  EXPECT_FALSE(manager->watchdog().has_value());
  manager->Ready("serving");
  manager->Alive();
  EXPECT_TRUE(manager->TakeDescriptors().empty());
}

TEST_F(ServiceManagerTest, SaysEachThingAsItIsDocumented) {
  Set("NOTIFY_SOCKET", path_);
  Set("WATCHDOG_USEC", "2000000");
  Set("WATCHDOG_PID", std::to_string(::getpid()));
  Result<ServiceManager> manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok()) << manager.status().ToString();
  EXPECT_TRUE(manager->present());
  EXPECT_EQ(manager->watchdog(), std::chrono::seconds(2));
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(std::getenv("WATCHDOG_USEC"), nullptr);

  manager->Ready("serving\nWATCHDOG=trigger");
  EXPECT_EQ(Received(), "READY=1\nSTATUS=serving WATCHDOG=trigger");
  manager->Alive();
  EXPECT_EQ(Received(), "WATCHDOG=1");
  manager->Reloading("reading");
  const std::string reloading = Received();
  EXPECT_TRUE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << reloading;
  EXPECT_TRUE(reloading.ends_with("\nSTATUS=reading")) << reloading;
  manager->Stopping("bye");
  EXPECT_EQ(Received(), "STOPPING=1\nSTATUS=bye");
}

TEST_F(ServiceManagerTest, ASilentServiceManagerHoldsNobodyUp) {
  Set("NOTIFY_SOCKET", path_);
  Result<ServiceManager> manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok());
  for (int i = 0; i < 20'000; ++i) manager->Alive();  // Far more than its queue takes.
}

// In a child, because the descriptors are numbers 3 and 4.
TEST_F(ServiceManagerTest, InheritedDescriptorsComeWithTheirNames) {
  const pid_t child = ::fork();
  if (child == 0) {
    int pipes[2];
    bool good = ::pipe(pipes) == 0;
    const int reader = ::fcntl(pipes[0], F_DUPFD, 10), writer = ::fcntl(pipes[1], F_DUPFD, 10);
    good = good && ::dup2(reader, 3) == 3 && ::dup2(writer, 4) == 4;
    Set("LISTEN_PID", std::to_string(::getpid()));
    Set("LISTEN_FDS", "2");
    Set("LISTEN_FDNAMES", "client:admin");
    Result<ServiceManager> manager = ServiceManager::FromEnvironment();
    good = good && manager.ok();
    std::vector<InheritedDescriptor> taken;
    if (good) taken = manager->TakeDescriptors();
    good = good && taken.size() == 2 && taken[0].name == "client" && taken[0].fd.get() == 3 &&
           taken[1].name == "admin" && taken[1].fd.get() == 4 && (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0 &&
           std::getenv("LISTEN_FDS") == nullptr;
    for (InheritedDescriptor& each : taken) static_cast<void>(each.fd.release());
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ServiceManagerTest, VariablesForAnotherProcessAreLeftAlone) {
  Set("LISTEN_PID", "1");
  Set("LISTEN_FDS", "2");
  Set("NOTIFY_SOCKET", path_);
  Set("WATCHDOG_PID", "1");
  Set("WATCHDOG_USEC", "1000000");
  Result<ServiceManager> manager = ServiceManager::FromEnvironment();
  ASSERT_TRUE(manager.ok());
  EXPECT_TRUE(manager->TakeDescriptors().empty());
  EXPECT_FALSE(manager->watchdog().has_value());
}

TEST_F(ServiceManagerTest, AnImpossibleValueIsNamed) {
  const struct {
    const char *name, *value;
  } cases[] = {{"LISTEN_FDS", "many"},        {"LISTEN_FDS", "-1"},
               {"LISTEN_FDS", "4097"},        {"LISTEN_FDS", "4000"},
               {"WATCHDOG_USEC", "0"},        {"WATCHDOG_USEC", "soon"},
               {"NOTIFY_SOCKET", "relative"}, {"NOTIFY_SOCKET", "/nowhere/at/all"}};
  for (const auto& [name, value] : cases) {
    Clear();
    Set(name, value);
    const Result<ServiceManager> manager = ServiceManager::FromEnvironment();
    ASSERT_FALSE(manager.ok()) << name << "=" << value;
    EXPECT_NE(manager.status().message().find(name), std::string::npos) << manager.status().message();
    EXPECT_NE(manager.status().message().find(value), std::string::npos) << manager.status().message();
  }
}

}  // namespace
}  // namespace nd::os
