// SPDX-License-Identifier: Apache-2.0
// Totals with honest, dying, hostile and numerous clients.
#include "daemon/metrics/tallies.h"

#include <gtest/gtest.h>

namespace nd::ops {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

Flow Bytes(std::uint64_t tx) {
  Flow flow{};
  flow[static_cast<std::size_t>(Count::kTxBytes)] = tx;
  return flow;
}
std::uint64_t Tx(const Flow& flow) {
  return flow[static_cast<std::size_t>(Count::kTxBytes)];
}

class TalliesTest : public ::testing::Test {
 protected:
  Tallies::Connection Connect(std::uint64_t id, const std::string& application = "app",
                              std::uint32_t uid = 1000) {
    Tallies::Connection c;
    c.id = id;
    c.session = 1;
    c.slot = static_cast<std::uint32_t>(id);
    c.peer = Address::V4({10, 0, 0, 2}, static_cast<std::uint16_t>(7000 + id % 1000));
    c.since = now;
    c.who = {application, uid, "", ""};
    c.link = {"soft0", "local"};
    return c;
  }
  void Read() {
    tallies.Read(now, [this](std::uint64_t, std::uint32_t slot) -> std::optional<Flow> {
      const auto it = pages.find(slot);
      return it == pages.end() ? std::nullopt : std::optional(it->second);
    });
  }
  const Row& App(const std::string& name = "app", std::uint32_t uid = 1000) {
    static const Row kNone;
    const auto it = tallies.applications().entries().find({name, uid, "", ""});
    return it == tallies.applications().entries().end() ? kNone : it->second.row;
  }

  Time now = Time(hours(1));
  std::map<std::uint32_t, Flow> pages;
  Tallies tallies;
};

TEST_F(TalliesTest, LiveAndEndedConnectionsMakeOneTotal) {
  tallies.Established(Connect(1), {});
  tallies.Established(Connect(2), {});
  pages = {{1, Bytes(100)}, {2, Bytes(10)}};
  now += seconds(1);
  Read();
  EXPECT_EQ(Tx(App().flow), 110u);
  EXPECT_EQ(App().connections, 2u);
  // Traffic since the last reading is counted when the connection ends.
  tallies.Ended(1, "closed", false, {}, Bytes(150), now);
  EXPECT_EQ(Tx(App().flow), 160u);
  EXPECT_EQ(App().connections, 1u);
  pages.erase(1);
  Read();
  EXPECT_EQ(Tx(App().flow), 160u);
  EXPECT_EQ(Tx(tallies.links().entries().at({"soft0", "local"}).row.flow), 160u);
  EXPECT_EQ(Tx(tallies.peers().entries().at("10.0.0.2").row.flow), 160u) << "by host, whatever the port";
  EXPECT_EQ(App().connects, 2u);
  EXPECT_EQ(App().broken, 0u);
  tallies.Ended(2, "broken", true, Detail::kPeerProcessDied, Bytes(10), now);
  EXPECT_EQ(App().broken, 1u);
  EXPECT_EQ(tallies.total().ends.at({"soft0", "broken", Detail::kPeerProcessDied}), 1u);
  tallies.Ended(2, "broken", true, Detail::kPeerProcessDied, Bytes(10), now);
  EXPECT_EQ(App().broken, 1u) << "once";
}

TEST_F(TalliesTest, EarlierContentsOfASlotAreNotCounted) {
  tallies.Established(Connect(1), Bytes(5000));
  pages = {{1, Bytes(5100)}};
  Read();
  EXPECT_EQ(Tx(App().flow), 100u);
}

TEST_F(TalliesTest, TotalsNeverFall) {
  tallies.Established(Connect(1), {});
  for (const std::uint64_t value : {100u, 40u, 0u, 90u, 100u}) {
    pages[1] = Bytes(value);
    now += seconds(1);
    Read();
    EXPECT_EQ(Tx(App().flow), 100u) << value;
  }
  pages[1] = Bytes(101);
  Read();
  EXPECT_EQ(Tx(App().flow), 101u);
}

TEST_F(TalliesTest, ValuesBeyondThePhysicalLimitAreNotCounted) {
  tallies.Established(Connect(1), {});
  pages[1] = Bytes(kHuge);
  now += seconds(1);
  Read();
  EXPECT_EQ(Tx(App().flow), 0u);
  EXPECT_EQ(tallies.total().implausible, 1u);
  pages[1] = Bytes(7);
  Read();
  EXPECT_EQ(Tx(App().flow), 0u);
  // A fast device over a long time is accepted.
  tallies.Established(Connect(2), {});
  pages[2] = Bytes(std::uint64_t{100'000'000'000} * 3600);
  now += hours(1);
  Read();
  EXPECT_EQ(Tx(App().flow), std::uint64_t{100'000'000'000} * 3600);
  EXPECT_EQ(tallies.total().implausible, 1u);
}

TEST_F(TalliesTest, TotalsStopAtTheLargestNumber) {
  std::uint64_t total = kHuge - 5;
  AddTo(total, 3);
  EXPECT_EQ(total, kHuge - 2);
  AddTo(total, 3);
  EXPECT_EQ(total, kHuge);
  AddTo(total, kHuge);
  EXPECT_EQ(total, kHuge);
}

TEST_F(TalliesTest, ReattachedConnectionAddsNoEarlierTraffic) {
  Tallies::Connection c = Connect(1);
  c.reattached = true;
  tallies.Established(c, {});
  now += milliseconds(500);
  pages[1] = Bytes(1'000'000);  // The client has copied its counts over.
  Read();
  EXPECT_EQ(Tx(App().flow), 0u);
  EXPECT_EQ(App().connects, 0u);
  EXPECT_EQ(App().connections, 1u);
  now += seconds(5);
  Read();
  pages[1] = Bytes(1'000'300);
  Read();
  EXPECT_EQ(Tx(App().flow), 300u);
  // The same holds after a while without readings.
  c.id = 2;
  c.slot = 2;
  c.since = now;
  tallies.Established(c, {});
  pages[2] = Bytes(5'000'000);
  now += seconds(60);
  Read();
  EXPECT_EQ(Tx(App().flow), 300u);
}

TEST_F(TalliesTest, NamesOfOneUserDoNotDisplaceThoseOfAnother) {
  std::uint64_t id = 0;
  for (int i = 0; i < 1000; ++i) tallies.Established(Connect(++id, "noise" + std::to_string(i), 66), {});
  tallies.Established(Connect(++id, "victim", 1000), {});
  EXPECT_EQ(App("victim", 1000).connections, 1u);
  EXPECT_EQ(App("(other)", 66).connections, 1000u - 64u);
  EXPECT_EQ(App("noise0", 66).connections, 1u);
  EXPECT_LE(tallies.applications().entries().size(), 64u + 2u);
  // After their end new names replace them.
  for (std::uint64_t i = 1; i <= 1000; ++i) tallies.Ended(i, "closed", false, {}, {}, now);
  tallies.Established(Connect(++id, "fresh", 66), {});
  EXPECT_EQ(App("fresh", 66).connections, 1u);
}

TEST_F(TalliesTest, ManyUsersStayWithinTheBoundToo) {
  std::uint64_t id = 0;
  for (std::uint32_t uid = 0; uid < 2000; ++uid) tallies.Established(Connect(++id, "app", uid), {});
  // One more for each user without room, which clients cannot choose.
  EXPECT_LE(tallies.applications().entries().size(), 1025u);
  std::uint32_t all = 0;
  for (const auto& [who, entry] : tallies.applications().entries()) all += entry.row.connections;
  EXPECT_EQ(all, 2000u);
}

TEST_F(TalliesTest, SessionsAreCountedWhereTheyWereOpened) {
  for (std::uint64_t i = 0; i < 100; ++i) tallies.SessionOpened(i, {"s" + std::to_string(i), 5, "", ""}, now);
  std::uint32_t all = 0;
  for (const auto& [who, entry] : tallies.applications().entries()) all += entry.row.sessions;
  EXPECT_EQ(all, 100u);
  for (std::uint64_t i = 0; i < 100; ++i) tallies.SessionClosed(i);
  tallies.SessionClosed(7);
  for (const auto& [who, entry] : tallies.applications().entries()) EXPECT_EQ(entry.row.sessions, 0u);
}

TEST_F(TalliesTest, FailuresAreKeptByStageAndCause) {
  Tallies::Connection c = Connect(1);
  c.link.transport = "";
  tallies.Failed(c, "connect", {StatusCode::kConnectionRefused, "no", Detail::kNoListener}, now);
  tallies.Failed(c, "connect", {StatusCode::kConnectionRefused, "no", Detail::kNoListener}, now);
  EXPECT_EQ(App().failures, 2u);
  EXPECT_EQ(tallies.total().failures.at(
                {"soft0", false, "connect", StatusCode::kConnectionRefused, Detail::kNoListener}),
            2u);
}

}  // namespace
}  // namespace nd::ops
