// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/tcp_listeners.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "provider/soft/cm/cm_test_util.h"

namespace nd::provider::soft {
namespace {

// No descriptor can be opened during its life.
class NoDescriptors {
 public:
  NoDescriptors() {
    const UniqueFd probe(fcntl(0, F_DUPFD_CLOEXEC, 3));
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &saved_), 0);
    rlimit limit = saved_;
    limit.rlim_cur = static_cast<rlim_t>(probe.get());
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &saved_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit saved_{};
};

void TcpPorts(Options& options) {
  options.adapters[0].tcp_mode = true;
}

class Descriptors : public CmFixture {};

TEST_F(Descriptors, ExhaustionRefusesWithAResetAndRecovers) {
  Host p;
  Open(p, 2);
  const std::size_t idle = CountDescriptors();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit saved = limit;
  UniqueFd first = RawConnect(TestAddress(2, 4794));
  UniqueFd second = RawConnect(TestAddress(2, 4794));
  const UniqueFd probe(fcntl(0, F_DUPFD_CLOEXEC, 3));
  limit.rlim_cur = static_cast<rlim_t>(probe.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  Pump([&] { return RawClosed(first.get()); });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &saved), 0);
  EXPECT_EQ(p.sink.accept_errors, std::vector<int>{EMFILE}) << "and is told of";
  EXPECT_FALSE(RawClosed(second.get()));
  EXPECT_EQ(p.cm->handshakes(), 0u);
  // The pause ends after a tenth of a second; the waiting connection is then served.
  clock.Skip(std::chrono::milliseconds(200));
  Pump([&] { return p.cm->handshakes() == 1; });
  first.reset();
  second.reset();
  Pump([&] { return CountDescriptors() == idle + 1; });
  EXPECT_EQ(p.cm->handshakes(), 0u);
}

TEST_F(Descriptors, ExhaustionDoesNotSpinAndServesAcceptedConnections) {
  Host p;
  Open(p, 2);
  const UniqueFd in = RawConnect(TestAddress(2, 4794));
  Pump([&] { return p.cm->handshakes() == 1; });
  std::vector<UniqueFd> outside;
  for (int i = 0; i < 20; ++i) outside.push_back(RawConnect(TestAddress(2, 4794)));
  {
    const NoDescriptors limit;
    // Each pause lets the loop wake once or twice; without a pause it would never sleep.
    int wakes = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
    while (std::chrono::steady_clock::now() < end) {
      loop.RunOnce(std::chrono::milliseconds(50));
      ++wakes;
    }
    EXPECT_LT(wakes, 60);
    RawSend(in.get(),
            ActiveHandshake({PortMode::kSeparate, true, 128}, 50001, 7000, {4, 4}, {}).Start().send);
    EXPECT_EQ(Next(p).kind, Recorded::kRequest);
  }
  const auto refused = static_cast<std::size_t>(
      std::count_if(outside.begin(), outside.end(), [](const UniqueFd& fd) { return RawClosed(fd.get()); }));
  EXPECT_GT(refused, 0u);
  EXPECT_LT(refused, outside.size());
  clock.Skip(std::chrono::milliseconds(200));
  Pump([&] { return p.cm->handshakes() == 1 + outside.size() - refused; });
}

TEST_F(Descriptors, PortThatStartsListeningInAPauseIsServedAfterIt) {
  Host p;
  Open(p, 2, TcpPorts);
  for (const std::uint16_t port : {std::uint16_t{7000}, std::uint16_t{7001}}) {
    p.cm->Reserve(EndpointId{port}, "soft0", TestAddress(2, port));
    ASSERT_TRUE(Next(p).status.ok());
  }
  p.cm->Listen(EndpointId{7000}, "soft0", TestAddress(2, 7000));
  UniqueFd refused = RawConnect(TestAddress(2, 7000));
  {
    const NoDescriptors limit;
    Pump([&] { return RawClosed(refused.get()); });
    p.cm->Listen(EndpointId{7001}, "soft0", TestAddress(2, 7001));
  }
  const UniqueFd one = RawConnect(TestAddress(2, 7000)), other = RawConnect(TestAddress(2, 7001));
  EXPECT_TRUE(one && other);
  clock.Skip(std::chrono::milliseconds(200));
  Pump([&] { return p.cm->handshakes() == 2; });
}

TEST_F(Descriptors, ConnectAndReserveFailCleanlyWithoutDescriptors) {
  Host a, p;
  Open(a, 1);
  Open(p, 2, TcpPorts);
  const std::size_t idle = CountDescriptors();
  {
    const NoDescriptors limit;
    a.cm->Connect(To(TestAddress(1, 50001), TestAddress(9, 7000)));
    const Recorded failed = Next(a);
    EXPECT_EQ(failed.kind, Recorded::kFailed);
    EXPECT_EQ(failed.status.code(), StatusCode::kInsufficientResources) << failed.status.ToString();
    p.cm->Reserve(EndpointId{7}, "soft0", TestAddress(2, 7000));
    const Recorded refused = Next(p);
    EXPECT_EQ(refused.kind, Recorded::kReserved);
    EXPECT_EQ(refused.status.code(), StatusCode::kInsufficientResources) << refused.status.ToString();
  }
  EXPECT_EQ(a.cm->handshakes(), 0u);
  EXPECT_EQ(CountDescriptors(), idle);
  p.cm->Reserve(EndpointId{7}, "soft0", TestAddress(2, 7000));
  EXPECT_TRUE(Next(p).status.ok());
}

// In a network namespace of its own the test adds and removes an address.
TEST_F(Descriptors, FollowsAddressesThatComeAndGo) {
  if (unshare(CLONE_NEWNET) != 0) GTEST_SKIP() << "no right to make a network namespace";
  const auto run = [](const char* command) { return std::system(command) == 0; };
  if (!run("ip link set lo up 2>/dev/null")) GTEST_SKIP() << "no ip command";
  Host h;
  Options options;
  options.adapters.emplace_back();
  auto made = MakeSoftCm(options, loop, h.sink);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const Address added = Address::V4({10, 77, 0, 1});
  EXPECT_FALSE(RawConnect(added.WithPort(4794)));
  ASSERT_TRUE(run("ip addr add 10.77.0.1/32 dev lo"));
  h.cm = std::move(made).value();
  EXPECT_EQ(Next(h).kind, Recorded::kAdapters);
  EXPECT_TRUE(RawConnect(added.WithPort(4794)));
  const auto has = [&] {
    const auto all = h.cm->adapters()[0].info.addresses;
    return std::find(all.begin(), all.end(), added) != all.end();
  };
  EXPECT_TRUE(has());
  ASSERT_TRUE(run("ip addr del 10.77.0.1/32 dev lo"));
  Pump([&] { return !has(); });
}

}  // namespace
}  // namespace nd::provider::soft
