// SPDX-License-Identifier: Apache-2.0
// The suite runs in a network namespace of its own if possible, so that ports of the host do not matter. With
// --transport=Verbs it runs in the namespace of the devices.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/conformance/report.h"
#include "tests/conformance/world.h"

namespace {

using nd::conformance::NameOf;
using nd::conformance::Transport;

class ForgetWorlds : public ::testing::Environment {
 public:
  void TearDown() override { nd::conformance::World::Forget(); }
};

// Takes --transport=NAME from the arguments. Returns false for an unknown name.
bool TakeTransport(int* argc, char** argv) {
  constexpr std::string_view kFlag = "--transport=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kFlag)) continue;
    const std::string_view wanted = argument.substr(kFlag.size());
    bool known = false;
    for (const Transport transport : {Transport::kLocal, Transport::kIwarp, Transport::kVerbs,
                                      Transport::kPods, Transport::kPodHost, Transport::kHostPod}) {
      if (NameOf(transport) != wanted) continue;
      nd::conformance::Transports() = {transport};
      known = true;
    }
    if (!known) return false;
    std::memmove(argv + i, argv + i + 1, static_cast<std::size_t>(*argc - i) * sizeof *argv);
    --*argc;
    return true;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!TakeTransport(&argc, argv)) {
    std::fputs("nd_conformance: --transport must be Local, Iwarp, Verbs, Pods, PodHost or HostPod\n", stderr);
    return 2;
  }
  const bool verbs = nd::conformance::Transports().front() == Transport::kVerbs;
  ::testing::InitGoogleTest(&argc, argv);
  nd::testing::IgnoreBrokenStreams();
  if (!::testing::GTEST_FLAG(list_tests)) {
    if (verbs && !nd::conformance::TheSite().error.empty()) {
      std::fprintf(stderr, "nd_conformance: %s\n", nd::conformance::TheSite().error.c_str());
      return 2;
    }
    std::string error = verbs ? std::string() : nd::testing::EnterPrivateNetwork();
    if (verbs) nd::testing::AdoptNetwork();
    const bool pods = nd::conformance::Transports().front() >= Transport::kPods;
    if (pods && error.empty()) error = nd::testing::Ip("link add nd0 type veth peer name nd1");
    if (pods && error.empty()) error = nd::testing::Ip("link del nd0");
    if (pods && !error.empty()) {
      std::fprintf(stderr, "SKIPPED: no right to make network namespaces (%s)\n", error.c_str());
      return 77;
    }
    if (!error.empty()) {
      std::fprintf(stderr, "nd_conformance: no private network (%s); cases that need one are skipped\n",
                   error.c_str());
    }
  }
  const std::string output = ::testing::GTEST_FLAG(output);
  constexpr std::string_view kJson = "json:";
  if (output.starts_with(kJson) && output.ends_with(".json") && !::testing::GTEST_FLAG(list_tests)) {
    nd::conformance::KeepReport(output.substr(kJson.size()));
  }
  ::testing::AddGlobalTestEnvironment(new ForgetWorlds);
  return RUN_ALL_TESTS();
}
