// SPDX-License-Identifier: Apache-2.0
// The shares of users on the wire, checked by counting flights.
#include "daemon/core/attempts.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "daemon/core/prng.h"

namespace nd::core {
namespace {

Address To(std::uint16_t port) {
  return Address::V4({10, 0, 0, 1}, port);
}

class AttemptsTest : public ::testing::Test {
 protected:
  Handle Add(std::uint32_t uid, std::uint16_t port) {
    const Handle handle{++last_};
    attempts_.Add(handle, uid, To(port));
    owner_[handle] = uid;
    return handle;
  }
  void AddMany(std::uint32_t uid, int count, std::uint16_t port) {
    for (int i = 0; i < count; ++i) Add(uid, port);
  }
  std::vector<Handle> Launch() {
    std::vector<Handle> flown;
    while (const std::optional<Handle> next = attempts_.Next()) flown.push_back(*next);
    for (const Handle handle : flown) ++flights_[owner_.at(handle)];
    return flown;
  }

  Attempts attempts_{256};
  std::uint64_t last_ = 0;
  std::map<Handle, std::uint32_t> owner_;
  std::map<std::uint32_t, int> flights_;  // All flights, by user.
};

TEST_F(AttemptsTest, SingleUserLeavesAnEighthFree) {
  AddMany(1000, 10000, 7000);
  EXPECT_EQ(Launch().size(), 224u);
  EXPECT_EQ(attempts_.waiting(), 9776u);
  const Handle honest = Add(2000, 8000);
  EXPECT_EQ(Launch(), std::vector{honest});
}

TEST_F(AttemptsTest, UsersShareEquallyWhenPlacesAreScarce) {
  for (const std::uint32_t uid : {1u, 2u, 3u}) AddMany(uid, 500, static_cast<std::uint16_t>(uid));
  Launch();
  EXPECT_LE(std::abs(flights_[1] - flights_[2]), 1);
  EXPECT_LE(std::abs(flights_[2] - flights_[3]), 1);
  EXPECT_GE(flights_[1], 78);
}

TEST_F(AttemptsTest, UsersTakeTurnsRegardlessOfTheirQueues) {
  attempts_.set_limit(1);
  AddMany(1000, 10000, 7000);
  Handle flies = Launch().at(0);
  for (int i = 0; i < 3; ++i) Add(2000, 8000);
  std::vector<std::uint32_t> turns;
  for (int i = 0; i < 6; ++i) {
    attempts_.Remove(flies);
    flies = Launch().at(0);
    turns.push_back(owner_.at(flies));
  }
  EXPECT_EQ(turns, (std::vector<std::uint32_t>{2000, 1000, 2000, 1000, 2000, 1000}));
}

TEST_F(AttemptsTest, SilentDestinationDoesNotKeepAllPlaces) {
  for (std::uint32_t uid = 1; uid <= 50; ++uid) AddMany(uid, 100, 7000);
  Launch();
  EXPECT_LE(attempts_.flying(), 224u);
  // A Connect to another destination is sent although hundreds of the same user wait.
  const Handle other = Add(7, 8000);
  EXPECT_EQ(Launch(), std::vector{other});
}

TEST_F(AttemptsTest, OneDestinationInOrderSeveralInTurn) {
  attempts_.set_limit(1);
  const Handle a1 = Add(1, 7000), a2 = Add(1, 7000), b1 = Add(1, 7001), b2 = Add(1, 7001);
  std::vector<Handle> order;
  for (int i = 0; i < 4; ++i) {
    order.push_back(Launch().at(0));
    EXPECT_EQ(attempts_.Remove(order.back()), Attempts::Place::kFlies);
  }
  EXPECT_EQ(order, (std::vector{a1, b1, a2, b2}));
  EXPECT_EQ(attempts_.Remove(a1), Attempts::Place::kNone);
}

TEST_F(AttemptsTest, ConnectThatIsGivenUpLeavesItsLine) {
  attempts_.set_limit(1);
  const Handle flies = Add(1, 7000);
  EXPECT_EQ(Launch(), std::vector{flies});
  const Handle given_up = Add(1, 7000), next = Add(1, 7000);
  EXPECT_EQ(attempts_.Remove(given_up), Attempts::Place::kWaits);
  attempts_.Remove(flies);
  EXPECT_EQ(Launch(), std::vector{next});
}

TEST_F(AttemptsTest, UserWithoutAttemptsIsForgotten) {
  for (std::uint32_t uid = 1; uid <= 50; ++uid) {
    const Handle flies = Add(uid, 7000), waits = Add(uid, 7001);
    attempts_.Next();
    EXPECT_EQ(attempts_.users(), 1u);
    attempts_.Remove(waits);
    EXPECT_EQ(attempts_.users(), 1u);
    attempts_.Remove(flies);
    EXPECT_EQ(attempts_.users(), 0u);
  }
}

TEST_F(AttemptsTest, LowerLimitEndsNoFlightAndStartsNone) {
  AddMany(1, 20, 7000);
  EXPECT_EQ(Launch().size(), 20u);
  attempts_.set_limit(5);
  AddMany(2, 1, 8000);
  EXPECT_TRUE(Launch().empty());
  EXPECT_EQ(attempts_.flying(), 20u);
}

// Compared with a recount: no flight exceeds its share at its start, and no Connect within its share is
// refused.
TEST_F(AttemptsTest, RandomUseKeepsWithinShares) {
  Prng prng(7);
  std::map<Handle, std::pair<std::uint32_t, std::uint16_t>> waits, flies;
  const auto may = [&](const std::pair<std::uint32_t, std::uint16_t>& who, std::uint32_t limit) {
    std::uint32_t of_user = 0, to_destination = 0;
    for (const auto& [handle, other] : flies) {
      of_user += other.first == who.first ? 1 : 0;
      to_destination += other.second == who.second ? 1 : 0;
    }
    const auto all = static_cast<std::uint32_t>(flies.size());
    return all < limit && of_user < 7 * (limit - all) && to_destination < 7 * (limit - all);
  };
  std::uint32_t limit = 20;
  attempts_.set_limit(limit);
  for (int step = 0; step < 20000; ++step) {
    if (prng.Below(200) == 0) attempts_.set_limit(limit = 1 + prng.Below(40));
    if (prng.Below(2) == 0) {
      const std::uint32_t uid = prng.Below(4);
      const auto port = static_cast<std::uint16_t>(1 + prng.Below(4));
      waits[Add(uid, port)] = {uid, port};
    } else {
      auto& from = prng.Below(3) == 0 ? waits : flies;
      if (!from.empty()) {
        auto gone = from.begin();
        std::advance(gone, prng.Below(static_cast<std::uint32_t>(from.size())));
        EXPECT_EQ(attempts_.Remove(gone->first),
                  &from == &waits ? Attempts::Place::kWaits : Attempts::Place::kFlies);
        from.erase(gone);
      }
    }
    while (const std::optional<Handle> next = attempts_.Next()) {
      ASSERT_TRUE(waits.contains(*next));
      ASSERT_TRUE(may(waits[*next], limit));
      flies[*next] = waits[*next];
      waits.erase(*next);
    }
    for (const auto& [handle, who] : waits) ASSERT_FALSE(may(who, limit));
    ASSERT_EQ(attempts_.waiting(), waits.size());
    ASSERT_EQ(attempts_.flying(), flies.size());
  }
}

}  // namespace
}  // namespace nd::core
