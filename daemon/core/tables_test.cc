// SPDX-License-Identifier: Apache-2.0
// The tables of the core one by one: what they make of keys that they do not have, and of other adapters,
// families and ranges.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/attempts.h"
#include "daemon/core/core_harness.h"
#include "daemon/core/ephemeral_pool.h"
#include "daemon/core/op_log.h"
#include "daemon/core/port_space.h"
#include "daemon/core/quota.h"
#include "daemon/core/read_limits.h"
#include "daemon/core/sessions.h"
#include "daemon/core/slot_table.h"
#include "daemon/core/tuple_table.h"

namespace nd::core {
namespace {

PortKey KeyOf(AdapterNo adapter, const std::string& local) {
  return PortKey::Of(adapter, Ip(local));
}
std::uint32_t FreeAt(PortSpace& space, AdapterNo adapter, const std::string& ip) {
  return space.EphemeralUse(KeyOf(adapter, ip), 1000).free;
}

// The ports of an address are counted when it is first asked for one.
TEST(PortPool, ExcludesTakenAndReservedPortsFromTheBeginning) {
  PortSpace space(1, 50000, 50003);
  for (const char* taken :
       {"10.0.0.1:50001", "10.0.0.2:50000", "10.0.0.1:50009", "10.0.0.1:49999", "[fd00::1]:50000"}) {
    space.Add(KeyOf(1, taken), {});
  }
  space.Add(KeyOf(0, "10.0.0.1:50000"), {});
  space.Add(KeyOf(2, "10.0.0.1:50000"), {});
  space.Reserve(KeyOf(1, "10.0.0.1:50002"), {});
  for (const char* elsewhere : {"10.0.0.2:50003", "10.0.0.1:50010", "10.0.0.1:49998", "[fd00::1]:50003"}) {
    space.Reserve(KeyOf(1, elsewhere), {});
  }
  space.Reserve(KeyOf(0, "10.0.0.1:50003"), {});
  space.Reserve(KeyOf(2, "10.0.0.1:50003"), {});
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.1"), 2u) << "50000 and 50003";
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.2"), 2u) << "50001 and 50002";
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.9"), 4u);
  EXPECT_EQ(FreeAt(space, 1, "[fd00::1]"), 2u);
  EXPECT_EQ(FreeAt(space, 3, "10.0.0.1"), 4u);
}

TEST(PortPool, WildcardTakesAPortFromEachAddressOfItsFamily) {
  PortSpace space(1, 50000, 50003);
  for (const AdapterNo adapter : {0u, 1u, 2u}) {
    for (const char* ip : {"10.0.0.1", "10.0.0.2", "fd00::1"}) FreeAt(space, adapter, ip);
  }
  space.Add(KeyOf(1, "0.0.0.0:50001"), {});
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.1"), 3u);
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.2"), 3u);
  EXPECT_EQ(FreeAt(space, 1, "fd00::1"), 4u);
  EXPECT_EQ(FreeAt(space, 0, "10.0.0.1"), 4u);
  EXPECT_EQ(FreeAt(space, 2, "10.0.0.1"), 4u);
  space.Release(KeyOf(1, "0.0.0.0:50001"));
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.1"), 4u);
}

TEST(PortPool, ExcludesTheFirstAndTheLastPortToo) {
  PortSpace space(1, 50000, 50003);
  space.Reserve(KeyOf(1, "10.0.0.1:50000"), {});
  space.Reserve(KeyOf(1, "10.0.0.1:50003"), {});
  EXPECT_EQ(FreeAt(space, 1, "10.0.0.1"), 2u);
}

TEST(PortSpace, CountsTheEphemeralPortsOfEachUser) {
  PortSpace space(1, 50000, 50003);
  const auto take = [&](const char* local, std::uint32_t uid) {
    PortEntry entry;
    entry.owner.uid = uid;
    space.Add(KeyOf(1, local), std::move(entry));
  };
  const auto held = [&](const char* ip, std::uint32_t uid) {
    return space.EphemeralUse(KeyOf(1, ip), uid).held;
  };
  take("10.0.0.1:50000", 7);
  take("10.0.0.1:50001", 7);
  take("10.0.0.2:50001", 7);
  take("10.0.0.1:50002", 8);
  take("10.0.0.1:49999", 7);
  EXPECT_EQ(held("10.0.0.1", 7), 2u);
  EXPECT_EQ(held("10.0.0.1", 8), 1u);
  EXPECT_EQ(held("0.0.0.0", 7), 3u);
  EXPECT_EQ(space.EphemeralUsed(1), 4u);
  EXPECT_EQ(space.EphemeralUsed(2), 0u);
  space.Release(KeyOf(1, "10.0.0.1:50001"));
  space.Release(KeyOf(1, "10.0.0.1:50002"));
  EXPECT_EQ(held("10.0.0.1", 7), 1u);
  EXPECT_EQ(held("10.0.0.1", 8), 0u);
  EXPECT_EQ(space.EphemeralUsed(1), 2u);
  space.SetRange(49999, 50000);
  EXPECT_EQ(held("10.0.0.1", 7), 2u);
  EXPECT_EQ(held("10.0.0.2", 7), 0u);
  EXPECT_EQ(space.EphemeralUsed(1), 2u);
}

TEST(PortPool, FollowsTheRange) {
  PortSpace space(1, 50000, 50003);
  EXPECT_EQ(FreeAt(space, 0, "10.0.0.1"), 4u);
  space.SetRange(50000, 50005);
  EXPECT_EQ(FreeAt(space, 0, "10.0.0.1"), 6u);
  EXPECT_TRUE(space.IsEphemeral(50005));
  EXPECT_FALSE(space.IsEphemeral(50006));
  EXPECT_FALSE(space.IsEphemeral(49999));
  EXPECT_FALSE(space.Unreserve(KeyOf(0, "10.0.0.1:50000")).has_value());
  EphemeralPool pool(50000, 50001, 0);
  pool.PutBack(50000);
  pool.PutBack(50002);
  pool.PutBack(49999);
  EXPECT_EQ(pool.size(), 2u);
  EXPECT_FALSE(pool.Contains(50002));
}

TEST(TupleTable, ErasesOnlyTheAttemptThatHoldsTheKey) {
  TupleTable table;
  const TupleKey key{0, Ip("10.0.0.1:6000"), Ip("10.0.1.1:7000")},
      other{0, Ip("10.0.0.1:6001"), Ip("10.0.1.1:7000")};
  table.Put(key, Role::kActive, {5, Handle{50}});
  table.Erase(other, Role::kActive, 5);
  table.Erase(key, Role::kPassive, 5);
  table.Erase(key, Role::kActive, 4);
  EXPECT_EQ(table.Find(key, Role::kActive).attempt, 5u);
  table.Erase(key, Role::kActive, 5);
  EXPECT_EQ(table.Find(key, Role::kActive).attempt, 0u);
}

TEST(Quota, TokenThatIsAssignedToItselfKeepsItsCharge) {
  Quota quota;
  std::optional<Quota::Token> token = quota.Charge(7, Resource::kPorts, std::nullopt);
  ASSERT_TRUE(token.has_value());
  Quota::Token& same = *token;
  *token = std::move(same);
  EXPECT_TRUE(static_cast<bool>(*token));
  EXPECT_EQ(quota.usage().at(7)[static_cast<std::size_t>(Resource::kPorts)], 1u);
}

TEST(SlotTable, HandleBeyondTheLastSlotIsInvalid) {
  SlotTable<int> table(3);
  table.Insert(1);
  EXPECT_EQ(table.Find(Handle::Make(3, 1, 1)), nullptr);
}

TEST(Submissions, KeepTheOrderHoweverTheyEnd) {
  Submissions submissions;
  const auto at = [](std::uint64_t n) { return Time(std::chrono::seconds(n)); };
  EXPECT_EQ(submissions.Oldest(), std::nullopt);
  EXPECT_FALSE(submissions.Remove(1));
  for (std::uint64_t n = 1; n <= 5000; ++n) submissions.Add(n, at(n));
  for (std::uint64_t n = 1; n <= 2000; ++n) {
    EXPECT_TRUE(submissions.Remove(n));
    EXPECT_FALSE(submissions.Remove(n)) << "twice";
    EXPECT_EQ(submissions.Oldest(), at(n + 1));
  }
  for (std::uint64_t n = 5000; n > 3000; --n) EXPECT_TRUE(submissions.Remove(n));
  EXPECT_EQ(submissions.size(), 1000u);
  for (std::uint64_t n = 2002; n <= 3000; ++n) EXPECT_TRUE(submissions.Remove(n));
  EXPECT_EQ(submissions.size(), 1u);
  EXPECT_EQ(submissions.Oldest(), at(2001));
  submissions.Add(6000, at(6000));
  EXPECT_TRUE(submissions.Remove(2001));
  EXPECT_EQ(submissions.Oldest(), at(6000));
  EXPECT_TRUE(submissions.Remove(6000));
  EXPECT_EQ(submissions.size(), 0u);
}

TEST(OpLog, OperationsBesideEachOtherHaveTheirPlaces) {
  OpLog log;
  log.Begin(9, 90);
  log.Begin(4, 91);  // Ids need not grow.
  EXPECT_EQ(log.running(), 2u);
  EXPECT_EQ(log.Lookup(9), OpLog::Known::kRunning);
  EXPECT_EQ(log.Lookup(4), OpLog::Known::kRunning);
  EXPECT_EQ(log.Lookup(5), OpLog::Known::kNew);
  EXPECT_EQ(log.SequenceOf(9), 90u);
  EXPECT_EQ(log.SequenceOf(4), 91u);
  log.End({{9, {}, {}}, SessionId{1}}, OpLog::kBytes);
  log.End({{4, {}, {}}, SessionId{1}}, OpLog::kBytes);
  EXPECT_EQ(log.running(), 0u);
  EXPECT_EQ(log.Done(9).op_id, 9u);
  EXPECT_EQ(log.Done(4).op_id, 4u);
}

TEST(OpLog, OperationThatDoesNotRunHasNoPlace) {
  OpLog log;
  log.Begin(7, 70);
  EXPECT_EQ(log.SequenceOf(7), 70u);
  EXPECT_EQ(log.SequenceOf(8), 0u);
}

TEST(Attempts, WithoutAFreePlaceNoAttemptStarts) {
  EXPECT_FALSE(Attempts::MayFly(0, 5, 5));
  EXPECT_TRUE(Attempts::MayFly(6, 4, 5));
  EXPECT_FALSE(Attempts::MayFly(7, 4, 5));
}

TEST(ReadLimits, PeerMayHaveAllThatWasOffered) {
  EXPECT_TRUE(ActiveFinal({20, 20}, {20, 20}, {16, 16}).has_value());
  EXPECT_FALSE(ActiveFinal({20, 20}, {20, 21}, {16, 16}).has_value());
}

TEST(LocalAddress, WildcardNeedsAnAddressOfItsFamily) {
  const AdapterInfo info = TestAdapter("a0", {"10.0.0.1"}).info;
  EXPECT_TRUE(CheckLocalAddress(info, Ip("0.0.0.0:1"), true).ok());
  EXPECT_FALSE(CheckLocalAddress(info, Ip("[::]:1"), true).ok());
  EXPECT_FALSE(CheckLocalAddress(info, Ip("0.0.0.0:1"), false).ok());
}

}  // namespace
}  // namespace nd::core
