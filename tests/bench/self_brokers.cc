// SPDX-License-Identifier: Apache-2.0
// A broker for each "host"; both must use one TCP port, so a free one is looked for first.
#include "tests/bench/self_brokers.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/locate.h"
#include "base/os/file.h"
#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "tests/bench/machine.h"

namespace nd::perf {
namespace {

// Returns a port that is free on both addresses now.
int FreePort() {
  const auto listen = [](const char* ip, std::uint16_t port) {
    return os::ListenTcp(Address::Parse(ip).value().WithPort(port), 1);
  };
  for (int attempt = 0; attempt < 100; ++attempt) {
    const UniqueFd first = listen(SelfBrokers::kClientIp, 0);
    const std::uint16_t port = first ? os::LocalAddress(first.get()).port() : std::uint16_t{0};
    if (first && listen(SelfBrokers::kServerIp, port)) return port;
  }
  return 0;
}

bool Accepts(const std::string& path) {
  return static_cast<bool>(os::ConnectLocal(path, os::SocketKind::kMessages, std::chrono::seconds(1)));
}

// ndbrokerd is next to ndperf in the build directory and when installed.
std::string FindDaemon(const std::string& own_program) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(own_program).parent_path();
  const fs::path name = fs::path("ndbrokerd").replace_extension(fs::path(own_program).extension());
  for (const fs::path& path : {folder / name, folder / "../sbin" / name}) {
    if (std::error_code error; fs::exists(path, error)) return path.string();
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
  os::MakePrivateDirectory(directory);
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
  root_ = MakeScratchDirectory();
  if (root_.empty()) {
    return {StatusCode::kUnsuccessful, std::string("no directory for brokers: ") + std::strerror(errno)};
  }
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
