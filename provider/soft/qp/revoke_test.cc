// SPDX-License-Identifier: Apache-2.0
// The end of a registration while peers claim to access the memory: it costs one time-out in total and the
// connections of those peers, and affects no other.
#include <future>
#include <optional>
#include <thread>

#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kPeers = 5;

class RevokeTest : public ::testing::Test {
 protected:
  // A connection whose peer is this test: it owns side 1 of the segment.
  struct Stubborn {
    std::shared_ptr<QueuePair> victim;
    Mapping segment;
    UniqueFd socket;
    SideControl& control() { return reinterpret_cast<Segment*>(segment.data())->side[1]; }
  };
  // `on_closed` may run after the end of the test, because the socket closes before the queue pair does.
  std::unique_ptr<Stubborn> MakeStubborn(std::function<void()> on_closed) {
    auto made = std::make_unique<Stubborn>();
    HandOffs both = MakeHandOffs(Link::kShared);
    made->segment = Mapping::Map(both.passive.fds[0].get(), kSegmentSize, true).value();
    made->socket = std::move(both.passive.fds[1]);
    QpOptions options = end_.Options();
    options.counters = nullptr;
    options.on_peer_closed = [on_closed = std::move(on_closed)](DisconnectReason, const Status&) {
      on_closed();
    };
    made->victim = end_.device->CreateQueuePair(options).value();
    EXPECT_TRUE(made->victim->Attach(std::move(both.active)).ok());
    return made;
  }
  // Returns the duration. Ends the program on a deadlock, which would block it for ever.
  Duration Deregister(Memory& memory) {
    const Time start = std::chrono::steady_clock::now();
    auto done = std::async(std::launch::async, [&] { return memory.region->Deregister().ok(); });
    if (done.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      std::fprintf(stderr, "Deregister does not come back\n");
      std::abort();
    }
    EXPECT_TRUE(done.get());
    return std::chrono::steady_clock::now() - start;
  }
  End end_;
};

TEST_F(RevokeTest, AllStubbornPeersTogetherCostOnePatience) {
  Memory memory(end_, 4096, true);
  const auto closed = std::make_shared<std::atomic<int>>(0);
  std::vector<std::unique_ptr<Stubborn>> peers;
  for (std::size_t i = 0; i <= kPeers; ++i) peers.push_back(MakeStubborn([closed] { ++*closed; }));
  for (std::size_t i = 0; i < kPeers; ++i) peers[i]->control().hazard = memory.token();
  const Duration took = Deregister(memory);
  EXPECT_GE(took, kRevokePatience);
  EXPECT_LT(took, 2 * kRevokePatience);
  ASSERT_TRUE(end_.Until([&] { return *closed == static_cast<int>(kPeers); }));
  // The last one accesses nothing and keeps its connection.
  EXPECT_TRUE(peers[kPeers]->victim->Send(nullptr, {}, kOpSilentSuccess).ok());
}

TEST_F(RevokeTest, PeerThatStopsInTimeKeepsItsConnection) {
  Memory memory(end_, 4096, true);
  const auto closed = std::make_shared<std::atomic<int>>(0);
  auto peer = MakeStubborn([closed] { ++*closed; });
  peer->control().hazard = memory.token();
  std::thread stops([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    peer->control().hazard = 0;
  });
  const Duration took = Deregister(memory);
  stops.join();
  EXPECT_GE(took, std::chrono::milliseconds(90));
  EXPECT_EQ(*closed, 0);
  EXPECT_TRUE(peer->victim->Send(nullptr, {}, kOpSilentSuccess).ok());
}

// Objects that end with such a connection may need the device: a queue pair that the application destroys in
// its callback, and windows whose last owner is a request.
TEST_F(RevokeTest, ObjectsThatEndWithTheConnectionMayUseTheDevice) {
  Memory memory(end_, 4096, true), other(end_, 4096, true);
  std::shared_ptr<QueuePair> destroyed = end_.device->CreateQueuePair(end_.Options()).value();
  std::atomic<bool> closed{false};
  auto peer = MakeStubborn([&] {
    destroyed.reset();
    closed = end_.device->CreateQueuePair(end_.Options()).ok();
  });
  // The Bind waits behind a Read that is never answered, and owns the window alone.
  const Sge in = memory.At(0, 8);
  ASSERT_TRUE(peer->victim->Read(nullptr, {&in, 1}, 0, 0, 0).ok());
  {
    auto window = end_.device->CreateWindow().value();
    ASSERT_TRUE(
        peer->victim->BindWindow(nullptr, *other.region, *window, other.data, 64, kOpAllowRead | kOpReadFence)
            .ok());
  }
  peer->control().hazard = memory.token();
  Deregister(memory);
  EXPECT_TRUE(closed);
  EXPECT_TRUE(other.region->Deregister().ok()) << "the window ended, too";
}

// Other threads of the process continue meanwhile.
TEST_F(RevokeTest, OtherThreadsDoNotWait) {
  Memory memory(end_, 4096, true);
  auto peer = MakeStubborn([] {});
  peer->control().hazard = memory.token();
  auto done = std::async(std::launch::async, [&] { return Deregister(memory); });
  int made = 0;
  Duration longest{};
  while (done.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    const Time start = std::chrono::steady_clock::now();
    ASSERT_TRUE(end_.device->CreateQueuePair(end_.Options()).ok());
    longest = std::max<Duration>(longest, std::chrono::steady_clock::now() - start);
    ++made;
  }
  EXPECT_GT(made, 10);
  EXPECT_LT(longest, kRevokePatience / 2);
}

}  // namespace
}  // namespace nd::provider::soft
