// SPDX-License-Identifier: Apache-2.0
// Tests the wire itself: the frames that pass and those that do not.
#include "tests/testing/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace nd::testing {
namespace {

bool Connects(const Namespace& from, const char* to, int seconds) {
  SpawnOptions spawn;
  spawn.arguments = {"/usr/bin/timeout", std::to_string(seconds), "/bin/bash", "-c",
                     std::string("exec 5<>/dev/tcp/") + to};
  spawn.network_namespace = from.fd();
  spawn.output = "/dev/null";
  Process process = Process::Spawn(spawn);
  const std::optional<int> status = process.Wait(std::chrono::seconds(20));
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

TEST(Wire, PassesAndCuts) {
  const std::string error = InPrivateNetwork() ? std::string() : EnterPrivateNetwork();
  if (!error.empty()) GTEST_SKIP() << "no private network: " << error;
  Namespace a, b;
  ASSERT_TRUE(a.ok() && b.ok());
  Wire wire(a, "10.77.0.1/24", b, "10.77.0.2/24");
  ASSERT_EQ(wire.error(), "");
  // A refused connection proves the round trip; on a cut wire it would time out.
  EXPECT_FALSE(Connects(a, "10.77.0.2/9", 5));
  EXPECT_EQ(wire.dropped(), 0u);
  std::atomic<int> syns{0};
  wire.SetFilter([&](const Frame& frame) {
    if (frame.syn) ++syns;
    return !frame.transport;
  });
  EXPECT_FALSE(Connects(a, "10.77.0.2/9", 2));
  EXPECT_GE(syns, 1);
  EXPECT_GE(wire.dropped(), 1u);
}

}  // namespace
}  // namespace nd::testing
