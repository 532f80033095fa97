// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/tcp_listeners.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <cstdlib>

#include "provider/soft/cm/cm_test_util.h"

namespace nd::provider::soft {
namespace {

class Descriptors : public CmFixture {};

TEST_F(Descriptors, ExhaustionRefusesAudiblyAndRecoversByItself) {
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
  EXPECT_FALSE(RawClosed(second.get()));
  EXPECT_EQ(p.cm->handshakes(), 0u);
  // The pause is over after a tenth of a second; the one that waited meanwhile is served.
  clock.Skip(std::chrono::milliseconds(200));
  Pump([&] { return p.cm->handshakes() == 1; });
  first.reset();
  second.reset();
  Pump([&] { return CountDescriptors() == idle + 1; });
  EXPECT_EQ(p.cm->handshakes(), 0u);
}

// In a network namespace of its own an address can come and go.
TEST_F(Descriptors, AddressesThatComeAndGoAreFollowed) {
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
