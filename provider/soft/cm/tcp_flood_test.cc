// SPDX-License-Identifier: Apache-2.0
// Too many connections without a request: the right one is evicted, and no other.
#include <gtest/gtest.h>

#include <vector>

#include "provider/soft/cm/cm_test_util.h"

namespace nd::provider::soft {
namespace {

constexpr std::uint32_t kMostHalfOpen = 8;
// Longer than the test takes on a busy machine; the test advances the clock itself.
constexpr std::chrono::hours kRequestPatience{5};

class Flood : public CmFixture {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Open(p, 2, [](Options& options) {
      options.max_half_open = kMostHalfOpen;
      options.request_timeout = kRequestPatience;
    }));
  }
  // Two networks of 256 addresses.
  static Address Here(std::uint8_t host) { return TestAddress(host); }
  static Address There(std::uint8_t host) { return Address::V4({127, 255, 7, host}); }
  UniqueFd Dial(const Address& from) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage storage{};
    std::size_t length = from.ToSockaddr(&storage);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
    length = TestAddress(2, 4794).ToSockaddr(&storage);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), static_cast<socklen_t>(length)), 0);
    Settle();
    return fd;
  }
  static std::size_t Open(const std::vector<UniqueFd>& all) {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const UniqueFd& fd) { return fd && !RawClosed(fd.get()); }));
  }
  using CmFixture::Open;
  Host p;
};

TEST_F(Flood, NetworkCountsAllItsAddresses) {
  std::vector<UniqueFd> honest, flood;
  for (int i = 0; i < 2; ++i) honest.push_back(Dial(There(7)));
  for (int i = 0; i < 20; ++i) flood.push_back(Dial(Here(static_cast<std::uint8_t>(10 + i))));
  EXPECT_EQ(Open(honest), 2u) << "two of one address, but of a small network";
  EXPECT_EQ(Open(flood), kMostHalfOpen - 2);
  EXPECT_EQ(p.cm->handshakes(), kMostHalfOpen);
}

TEST_F(Flood, LargestNetworkIsEvictedFirst) {
  std::vector<UniqueFd> first, second;
  for (int i = 0; i < 6; ++i) first.push_back(Dial(There(7)));
  for (int i = 0; i < 2; ++i) second.push_back(Dial(Here(9)));
  second.push_back(Dial(Here(9)));
  EXPECT_EQ(Open(first), 5u);
  EXPECT_TRUE(RawClosed(first.front().get())) << "the oldest of them";
  EXPECT_EQ(Open(second), 3u);
  // The first network shrinks, so the second one is larger now.
  for (int i = 1; i < 5; ++i) first[static_cast<std::size_t>(i)].reset();
  Settle();
  for (int i = 0; i < 6; ++i) second.push_back(Dial(Here(9)));
  EXPECT_EQ(Open(first), 1u);
  EXPECT_EQ(Open(second), kMostHalfOpen - 1);
  EXPECT_TRUE(RawClosed(second.front().get()));
  EXPECT_EQ(p.cm->handshakes(), kMostHalfOpen);
}

TEST_F(Flood, ConnectionWithARequestIsNotEvicted) {
  std::vector<UniqueFd> asked, flood;
  std::vector<CmId> ids;
  for (int i = 0; i < 4; ++i) {
    asked.push_back(Dial(Here(9)));
    RawSend(asked.back().get(), RequestBytes());
    const Recorded request = Next(p);
    ASSERT_EQ(request.kind, Recorded::kRequest);
    ids.push_back(request.id);
  }
  for (int i = 0; i < 30; ++i) flood.push_back(Dial(Here(9)));
  EXPECT_EQ(Open(asked), 4u);
  EXPECT_EQ(Open(flood), kMostHalfOpen);
  EXPECT_EQ(p.cm->handshakes(), kMostHalfOpen + 4);
  p.cm->Accept(ids.back(), {{4, 4}, {}, 0, 0, 0});
  Settle();
  EXPECT_FALSE(RawReceive(asked.back().get()).empty()) << "the reply";
  EXPECT_TRUE(p.sink.events.empty());
}

// A count that is not decremented would lower the limit each time or select an empty network.
TEST_F(Flood, CountIsRightHoweverAConnectionEnds) {
  const std::size_t idle = CountDescriptors();
  using End = std::function<void(UniqueFd&)>;
  const End ends[] = {
      [](UniqueFd& fd) { fd.reset(); },
      [](UniqueFd& fd) { RawReset(fd); },
      [](UniqueFd& fd) { RawSend(fd.get(), Bytes(30, 'X')); },
      [this](UniqueFd&) { clock.Skip(kRequestPatience + std::chrono::minutes(1)); },
      [this](UniqueFd& fd) {
        RawSend(fd.get(), RequestBytes());
        const Recorded request = Next(p);
        EXPECT_EQ(request.kind, Recorded::kRequest);
        p.cm->Abort(request.id);
      },
  };
  for (const End& end : ends) {
    std::vector<UniqueFd> all;
    for (std::uint32_t i = 0; i < kMostHalfOpen + 3; ++i)
      all.push_back(Dial(i % 2 == 0 ? Here(9) : There(7)));
    EXPECT_EQ(p.cm->handshakes(), kMostHalfOpen);
    EXPECT_EQ(Open(all), kMostHalfOpen);
    for (UniqueFd& fd : all) {
      if (!RawClosed(fd.get())) end(fd);
      Settle();
    }
    EXPECT_EQ(p.cm->handshakes(), 0u);
    all.clear();
    // From a network without earlier connections; only it is examined.
    for (std::uint32_t i = 0; i < kMostHalfOpen + 1; ++i) all.push_back(Dial(Address::V4({127, 255, 9, 1})));
    EXPECT_TRUE(RawClosed(all.front().get()));
    EXPECT_EQ(p.cm->handshakes(), kMostHalfOpen);
    all.clear();
    Pump([&] { return CountDescriptors() == idle; });
  }
  EXPECT_TRUE(p.sink.events.empty());
}

TEST_F(Flood, SlowPeerHasAFifthOfTheTimeUnderPressure) {
  std::vector<UniqueFd> all;
  for (std::uint32_t i = 0; i < kMostHalfOpen / 2; ++i)
    all.push_back(Dial(There(static_cast<std::uint8_t>(i + 1))));
  UniqueFd last = Dial(Here(9));  // More than half of the limit.
  clock.Skip(kRequestPatience / 5 + std::chrono::minutes(1));
  Settle();
  EXPECT_TRUE(RawClosed(last.get()));
  EXPECT_EQ(Open(all), kMostHalfOpen / 2);
  clock.Skip(kRequestPatience * 4 / 5);
  Settle();
  EXPECT_EQ(Open(all), 0u);
  EXPECT_EQ(p.cm->handshakes(), 0u);
}

}  // namespace
}  // namespace nd::provider::soft
