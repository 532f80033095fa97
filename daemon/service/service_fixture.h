// SPDX-License-Identifier: Apache-2.0
// Tests only: the service as a process of its own. After every case the daemon must be the same process, hold
// no more resources than before, and serve an honest client. The test program is also the daemon (--serve).
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/service/raw_client.h"

namespace nd::service {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Other modes of the test program, for stall_process_test.cc.
int StoppedInAHandOver(const std::string& directory);
int HangUp(const std::string& directory, int clients);

inline pid_t Spawn(std::vector<std::string> arguments, UniqueFd* output) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  std::vector<char*> argv;
  arguments.insert(arguments.begin(), "/proc/self/exe");
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  output->reset(ends[0]);
  return pid;
}

inline std::string ReadLine(const UniqueFd& fd) {
  std::string line;
  for (char c = 0; ::read(fd.get(), &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ndserviceXXXXXX";
    directory_ = ::mkdtemp(name);
    StartDaemon(
        "[limits]\nsession-queue-bytes = 131072\npending-operations = 100\n[timeouts]\nhello = \"1s\"\n");
  }
  void TearDown() override {
    if (daemon_ > 0) {
      EXPECT_EQ(::waitpid(daemon_, nullptr, WNOHANG), 0) << "the daemon must still run";
      EXPECT_TRUE(Settles()) << "something of a client is left";
      RawClient honest(directory_);
      EXPECT_EQ(honest.hello.status().code(), 0u);
      EXPECT_NE(honest.adapter, 0u);
      EXPECT_EQ(StopDaemon(), 0);
      EXPECT_FALSE(std::filesystem::exists(ClientSocketPath(directory_, kBrokerSocketName)));
    }
    std::filesystem::remove_all(directory_);
  }
  // With `mode` "--serve-tcp" the transports are TCP sockets.
  void StartDaemon(const std::string& config, const char* mode = "--serve") {
    std::ofstream(directory_ + "/config.toml") << config;
    daemon_ = Spawn({mode, directory_}, &daemon_output_);
    ASSERT_EQ(ReadLine(daemon_output_), "READY");
    admin_ = pb::Admin::NewStub(Dial(directory_ + "/admin.sock"));
    idle_fds_ = GetStatus().open_fds();
  }
  int StopDaemon() {
    ::kill(daemon_, SIGTERM);
    int status = 0;
    ::waitpid(daemon_, &status, 0);
    daemon_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  }
  template <typename Reply, typename Request>
  Reply Call(grpc::Status (pb::Admin::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
             const Request& request, grpc::StatusCode expected = grpc::StatusCode::OK) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    Reply reply;
    const grpc::Status status = (admin_.get()->*method)(&context, request, &reply);
    EXPECT_EQ(status.error_code(), expected) << status.error_message();
    return reply;
  }
  pb::BrokerStatus GetStatus() { return Call(&pb::Admin::Stub::GetStatus, pb::GetStatusRequest()); }
  pb::ListRequest All() { return {}; }
  // Returns the answer of the metrics socket with its headers; empty: no answer.
  std::string Get(const std::string& path) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = directory_ + "/metrics.sock";
    std::memcpy(address.sun_path, name.data(), name.size());
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
    std::string answer;
    std::array<char, 4096> buffer;
    for (ssize_t n; (n = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;) {
      answer.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return answer;
  }
  template <typename Condition>
  bool Until(Condition done) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }
  // Returns true when all resources of clients are released.
  bool Settles() {
    return Until([&] {
      const pb::BrokerStatus s = GetStatus();
      return s.sessions() == 0 && s.connections() == 0 && s.listeners() == 0 && s.shared_endpoints() == 0 &&
             s.open_fds() <= idle_fds_;
    });
  }

  std::string directory_;
  pid_t daemon_ = -1;
  UniqueFd daemon_output_;
  std::unique_ptr<pb::Admin::Stub> admin_;
  std::uint32_t idle_fds_ = 0;
};

}  // namespace nd::service
