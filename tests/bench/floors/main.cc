// SPDX-License-Identifier: Apache-2.0
// nd_floors: runs one floor and prints each of its figures as "VALUE UNIT" on a line.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "tests/bench/floors/floor.h"

namespace nd::floors {
namespace {

const std::map<std::string, Values (*)(const Plan&)> kFloors = {
    {"pingpong", PingPong},      {"write", Write},          {"ring", Ring},       {"rate", Rate},
    {"crossing", Crossing},      {"memcpy", Memcpy},        {"vmwrite", VmWrite}, {"tcp-lat", TcpLatency},
    {"tcp-bw", TcpBandwidth},    {"unix-lat", UnixLatency}, {"eventfd", Eventfd}, {"call", Call},
    {"setup-local", SetupLocal}, {"setup-tcp", SetupTcp},
};

}  // namespace
}  // namespace nd::floors

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that is not caught is a bug and should leave a
// core.
int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Measures the speed of this machine without ndbroker", "nd_floors");
  nd::floors::Plan plan;
  std::string name;
  std::vector<int> cpus = {0, 1};
  unsigned milliseconds = 100;
  app.add_option("floor", name, "pingpong, write, ... (see tests/bench/floors/floor.h)")
      ->required()
      ->check(CLI::IsMember(nd::floors::kFloors));
  app.add_option("--size", plan.size, "Bytes of each message, a multiple of 8")
      ->check(CLI::Range(std::size_t{8}, std::size_t{1} << 28))
      ->check([](const std::string& text) {
        return std::stoull(text) % 8 == 0 ? std::string() : text + " is not a multiple of 8";
      });
  app.add_option("--cpus", cpus, "The two CPUs, such as 0,1; may be one CPU twice, unless the floor polls")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(0, 1023));
  app.add_option("--ms", milliseconds, "How long to measure, in milliseconds")->check(CLI::Range(1U, 60000U));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  plan.cpu = cpus[0];
  plan.peer_cpu = cpus[1];
  plan.seconds = milliseconds / 1e3;
  for (const auto& [unit, value] : nd::floors::kFloors.at(name)(plan)) std::printf("%.6g %s\n", value, unit);
  return 0;
}
