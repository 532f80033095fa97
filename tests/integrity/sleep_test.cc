// SPDX-License-Identifier: Apache-2.0
// An application that sleeps is served by its progress thread, whatever its polls have taken from that
// thread.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "tests/integrity/world.h"
#include "tests/testing/channel.h"
#include "tests/testing/stopped_thread.h"

namespace nd::integrity {
namespace {

using nd::testing::Eventually;
using nd::testing::StoppedThread;

constexpr char kProgressThread[] = "nd-progress";

class Sleep : public ::testing::Test {
 protected:
  void SetUp() override {
    World::Forget();  // Its applications would use the same port.
    world_ = std::make_unique<World>(Transport::kLocal);
    nd::testing::SpawnOptions spawn;
    spawn.arguments = {nd::testing::BinaryDirectory() + "/nd_integrity", "--app"};
    active_.Start(spawn);
    passive_.Start(spawn);
  }
  void TearDown() override {
    active_.Stop();
    passive_.Stop();
    world_.reset();
  }
  std::string Call(nd::testing::Channel& side, const std::string& words) {
    return side.Call("program=sleep broker=" + world_->broker(0).directory() +
                     " from=127.0.0.2:0 to=127.0.0.2:7000 active=" + (&side == &active_ ? "1 " : "0 ") +
                     words);
  }
  // The progress thread of the passive side has slept for a while.
  bool Settled() {
    const std::string path =
        "/proc/" + std::to_string(passive_.process().pid()) + "/task/" +
        std::to_string(nd::testing::ThreadNamed(passive_.process().pid(), kProgressThread)) + "/status";
    std::string before;
    return Eventually([&] {
      std::ifstream in(path);
      std::string now, line;
      while (std::getline(in, line)) {
        if (line.starts_with("State:") || line.starts_with("voluntary_ctxt_switches:")) now += line;
      }
      const bool same = now == before && now.find("sleeping") != std::string::npos;
      before = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return same;
    });
  }

  std::unique_ptr<World> world_;
  nd::testing::Channel active_, passive_;
};

// The thread stands still while a poll takes the doorbell that was meant for it. Nobody polls any more, so
// that only the thread can receive the second Send, and only a doorbell can wake it.
TEST_F(Sleep, PollThatTakesTheDoorbellCallsTheThreadThatItWasFor) {
  ASSERT_EQ(Call(passive_, "step=open"), "ok");
  ASSERT_EQ(Call(active_, "step=open"), "ok");
  std::string accepted;
  std::thread accept([&] { accepted = Call(passive_, "step=connect"); });
  const std::string connected = Call(active_, "step=connect");
  accept.join();
  ASSERT_EQ(connected, "ok");
  ASSERT_EQ(accepted, "ok");
  ASSERT_TRUE(Settled());
  {
    const StoppedThread thread(passive_.process().pid(), kProgressThread);
    ASSERT_TRUE(thread.found());
    if (!thread.stopped()) GTEST_SKIP() << "this environment does not allow ptrace";
    ASSERT_EQ(Call(active_, "step=send"), "ok");
    ASSERT_EQ(Call(passive_, "step=receive"), "ok");
  }
  ASSERT_TRUE(Settled());
  ASSERT_EQ(Call(active_, "step=send"), "ok");
  EXPECT_EQ(Call(active_, "step=take"), "ok");
  EXPECT_EQ(Call(active_, "step=close"), "ok");
  EXPECT_EQ(Call(passive_, "step=close"), "ok");
}

}  // namespace
}  // namespace nd::integrity
