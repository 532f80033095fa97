// SPDX-License-Identifier: Apache-2.0
// The conformance suite runs in a network of its own where it can, so that no port of the host matters.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/conformance/world.h"

namespace {

class ForgetWorlds : public ::testing::Environment {
 public:
  void TearDown() override { nd::conformance::World::Forget(); }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  if (!::testing::GTEST_FLAG(list_tests)) {
    const std::string error = nd::testing::EnterPrivateNetwork();
    if (!error.empty()) {
      std::fprintf(stderr, "nd_conformance: no private network (%s); cases that need one are skipped\n",
                   error.c_str());
    }
  }
  ::testing::AddGlobalTestEnvironment(new ForgetWorlds);
  return RUN_ALL_TESTS();
}
