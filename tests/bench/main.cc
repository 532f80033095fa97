// SPDX-License-Identifier: Apache-2.0
// ndperf: starts brokers if needed and the two ends as processes, and prints their results.
#include <cstdio>
#include <string>

#include "base/locate.h"
#include "base/os/self.h"
#include "tests/bench/ends.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"
#include "tests/bench/process.h"
#include "tests/bench/result.h"
#include "tests/bench/self_brokers.h"

namespace nd::perf {
namespace {

int Fail(const std::string& what) {
  std::fprintf(stderr, "ndperf: %s\n", what.c_str());
  return 1;
}

// Returns the line with the results; shows the lines before it, which say how far the client is.
std::optional<std::string> ReadResult(Process& client) {
  auto line = client.ReadLine(std::chrono::hours(24));
  bool shown = false;
  for (; line && line->starts_with("progress "); line = client.ReadLine(std::chrono::hours(24))) {
    std::fprintf(stderr, "\r\033[K%s", line->c_str());
    shown = true;
  }
  if (shown) std::fputs("\r\033[K", stderr);
  return line;
}

int RunBoth(const Options& options, const std::string& program, const std::string& client_broker,
            const std::string& server_broker, const std::string& server_address) {
  constexpr int kFd = Process::kReportFd;
  Process server = Process::Start(
      program, options.EndArguments(Role::kServer, server_broker, server_address, kFd), true, options.Cpu(1));
  const auto ready = server.ReadLine(std::chrono::seconds(30));
  if (!ready || !ready->starts_with("ready ")) return Fail("the server's side did not start");
  Process client =
      Process::Start(program, options.EndArguments(Role::kClient, client_broker, ready->substr(6), kFd), true,
                     options.Cpu(0));
  // No shorter limit is needed, because the ends give up when nothing moves.
  const auto line = ReadResult(client);
  const auto numbers = line ? Decode(*line) : std::nullopt;
  const auto client_exit = client.Wait(std::chrono::seconds(60));
  if (!numbers || client_exit != 0) return Fail("the client's side failed");
  if (server.Wait(std::chrono::seconds(60)) != 0) return Fail("the server's side failed");
  std::fputs((options.json ? ToJson(options, *numbers) : ToLine(options, *numbers)).c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : Fail("cannot write the result");
}

// Chooses the first two CPUs that this process may use.
bool ChooseCpus(Options* options) {
  options->cpus = AllowedCpus();
  if (options->cpus.size() > 2) options->cpus.resize(2);
  return options->cpus.size() == 2;
}

int RunParent(Options options) {
  if (options.pin && !ChooseCpus(&options)) return Fail("--pin: there are not two CPUs to pin to");
  const std::string program = OwnProgram();
  if (!options.self) {
    const std::string directory = options.broker.empty() ? FindBrokerDirectory() : options.broker;
    return RunBoth(options, program, directory, options.peer_broker.empty() ? directory : options.peer_broker,
                   options.address);
  }
  SelfBrokers brokers;
  if (Status status = brokers.Start(options, program); !status.ok()) return Fail(status.ToString());
  return RunBoth(options, program, brokers.client_directory(), brokers.server_directory(), {});
}

}  // namespace
}  // namespace nd::perf

int main(int argc, char** argv) {
  nd::perf::PrepareProgram();
  nd::perf::Options options;
  if (const auto exit = nd::perf::Parse(argc, argv, &options)) return *exit;
  if (options.role == nd::perf::Role::kParent) options.progress = nd::os::IsTerminal(nd::os::Stream::kError);
  switch (options.role) {
    case nd::perf::Role::kServer:
      return nd::perf::RunServer(options);
    case nd::perf::Role::kClient:
      return nd::perf::RunClient(options);
    case nd::perf::Role::kParent:
      return nd::perf::RunParent(options);
  }
  return 2;
}
