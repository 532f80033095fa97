// SPDX-License-Identifier: Apache-2.0
// nd_reliability PART [CONNECTIONS ROUNDS]: measures rows of the table in docs/reliability.md in a network
// namespace of its own. With --echo and the like it is one of the applications that a part starts.

#include <csignal>
#include <cstring>

#include "tests/reliability/apps.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"
#include "tests/testing/network.h"
#include "tests/testing/process.h"

namespace nd::reliability {
namespace {

struct Part {
  const char* name;
  int (*measure)(const Scale&);
  const char* what;
};
constexpr Part kParts[] = {
    {"restarts", MeasureRestarts, "connections, sessions and ports while the broker is killed"},
    {"reclaim", MeasureReclaim, "the time after the kill of an application"},
    {"handshakes", MeasureHandshakes, "malformed start-up frames of peers"},
    {"slow-peers", MeasureSlowPeers, "peers that never finish their request"},
    {"backlog", MeasureBacklog, "the refusals of a listener whose backlog is full"},
    {"descriptors", MeasureDescriptors, "a full table of descriptors, and clients that take none"},
    {"costs", MeasureCosts, "the hand-over of descriptors, and a segment of shared memory"},
    {"stags", MeasureStags, "the randomness of STags"},
    {"fairness", MeasureFairness, "an honest user beside a hundred processes of another one"},
};
struct Role {
  const char* name;
  int (*run)(const std::vector<std::string>&);
  std::size_t arguments;
};
constexpr Role kRoles[] = {{"--echo", RunEcho, 3},   {"--client", RunClient, 4}, {"--prober", RunProber, 2},
                           {"--thief", RunThief, 2}, {"--silent", RunSilent, 2}, {"--storm", RunStorm, 4},
                           {"--slow", RunSlow, 2}};

int Usage() {
  std::fputs("usage: nd_reliability PART [CONNECTIONS ROUNDS]\nparts:\n", stderr);
  for (const Part& part : kParts) std::fprintf(stderr, "  %-11s %s\n", part.name, part.what);
  return 2;
}

// A number from 2 to `most`, or 0.
std::size_t Number(const char* text, std::size_t most) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  return *end == '\0' && value >= 2 && value <= most ? value : 0;
}

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc < 2) return Usage();
  for (const Role& role : kRoles) {
    const std::vector<std::string> arguments(argv + 2, argv + argc);
    if (std::strcmp(argv[1], role.name) == 0 && arguments.size() == role.arguments)
      return role.run(arguments);
  }
  Scale scale;
  if (argc == 4) {
    scale.connections = Number(argv[2], 20'000);
    scale.rounds = static_cast<int>(Number(argv[3], 1000));
  }
  if ((argc != 2 && argc != 4) || scale.connections == 0 || scale.rounds == 0) return Usage();
  for (const Part& part : kParts) {
    if (std::strcmp(argv[1], part.name) != 0) continue;
    testing::AllowManyDescriptors();
    const std::string error = testing::EnterPrivateNetwork();
    if (!error.empty()) {
      std::fprintf(stderr, "nd_reliability: needs a network of its own: %s\n", error.c_str());
      return 77;  // ctest: skipped.
    }
    if (!testing::CanBeAnotherUser()) {
      std::fputs("nd_reliability: needs root, because some applications are other users\n", stderr);
      return 77;
    }
    return part.measure(scale);
  }
  return Usage();
}

}  // namespace
}  // namespace nd::reliability

int main(int argc, char** argv) {
  return nd::reliability::Main(argc, argv);
}
