// SPDX-License-Identifier: Apache-2.0
// A broker for each "host"; both must use one TCP port, so a free one is looked for first.
#include "tests/bench/self_brokers.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/locate.h"
#include "base/unique_fd.h"

namespace nd::perf {
namespace {

UniqueFd BindTcp(const char* ip, int* port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(*port));
  inet_pton(AF_INET, ip, &address.sin_addr);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
  socklen_t length = sizeof(address);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  *port = ntohs(address.sin_port);
  return fd;
}

// Returns a port that is free on both addresses now.
int FreePort() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    int port = 0;
    const UniqueFd first = BindTcp(SelfBrokers::kClientIp, &port);
    if (first && BindTcp(SelfBrokers::kServerIp, &port)) return port;
  }
  return 0;
}

bool Accepts(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// ndbrokerd is next to ndperf in the build directory and when installed.
std::string FindDaemon(const std::string& own_program) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(own_program).parent_path();
  for (const fs::path& path : {folder / "ndbrokerd", folder / "../sbin/ndbrokerd"}) {
    if (std::error_code error; fs::exists(path, error)) return path;
  }
  return "/usr/sbin/ndbrokerd";
}

}  // namespace

SelfBrokers::~SelfBrokers() {
  for (Process* process : {&first_, &second_}) process->Terminate();
  for (Process* process : {&first_, &second_}) process->Wait(std::chrono::seconds(5));
  if (std::error_code error; !root_.empty()) std::filesystem::remove_all(root_, error);
}

Status SelfBrokers::StartOne(const std::string& daemon, const std::string& directory, const char* ip,
                             int tcp_port, bool crc, std::optional<int> cpu, Process* process) {
  mkdir(directory.c_str(), 0700);
  const std::string config = directory + "/ndbroker.toml";
  std::ofstream(config) << "[broker]\ndirectory = \"" << directory
                        << "\"\nlog-level = \"warning\"\n[metrics]\nlisten = \"\"\n"
                        << "[[adapter]]\nname = \"soft0\"\naddresses = [\"" << ip
                        << "\"]\ntcp-port = " << tcp_port << "\ncrc = " << (crc ? "true" : "false") << "\n";
  *process = Process::Start(daemon, {"ndbrokerd", "--config", config}, false, cpu);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!Accepts(ClientSocketPath(directory, kLaneSocketName))) {
    if (const auto exit = process->Wait(std::chrono::milliseconds(10)); exit.has_value()) {
      return {StatusCode::kUnsuccessful, daemon + " ended with " + std::to_string(*exit)};
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return {StatusCode::kIoTimeout, daemon + " does not answer in " + directory};
    }
  }
  return Status::Ok();
}

Status SelfBrokers::Start(const Options& options, const std::string& own_program) {
  const char* tmp = std::getenv("TMPDIR");
  std::string name = std::string(tmp == nullptr || std::strlen(tmp) > 60 ? "/tmp" : tmp) + "/ndperf-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return {StatusCode::kUnsuccessful, name + ": " + std::strerror(errno)};
  root_ = name;
  two_ = options.transport == Transport::kIwarp;
  const std::string daemon = FindDaemon(own_program);
  // Another program may take the port in the meantime.
  Status status;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int port = FreePort();
    status = StartOne(daemon, client_directory(), kClientIp, port, options.crc, options.Cpu(2), &first_);
    if (status.ok() && two_)
      status = StartOne(daemon, server_directory(), kServerIp, port, options.crc, options.Cpu(3), &second_);
    if (status.ok()) return status;
    first_ = Process();
    second_ = Process();
  }
  return status;
}

}  // namespace nd::perf
