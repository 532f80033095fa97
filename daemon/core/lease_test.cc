// SPDX-License-Identifier: Apache-2.0
// Leases after the unexpected end of a broker: kept for their holders only, and not for ever.
#include <algorithm>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kOwner = 4242, kStranger = 4243;

// A broker that died while process kOwner of uid 1000 had a listener, a binding, an ephemeral port and an
// endpoint. `leases` is the contents of its journal.
struct AfterCrash {
  explicit AfterCrash(Duration grace = seconds(10)) {
    const auto owner = w.Open(0, 1000, kOwner);
    w.Listener(owner, "0.0.0.0:7000");
    w.Bound(owner, "10.0.0.1:6000");
    ephemeral = BindNew(w, owner, "10.0.0.1:0").reply.address;
    w.Endpoint(owner, "10.0.0.2:6001");
    w.Close(owner, w.Bound(owner, "10.0.0.1:6666"));
    leases = w.Leases();
    w.Restart(0, leases, grace);
  }
  World w;
  Address ephemeral;
  std::vector<Lease> leases;
};

TEST(Leases, FollowThePortsOnly) {
  AfterCrash a;
  ASSERT_EQ(a.leases.size(), 4u) << "the one that was closed is none";
  EXPECT_EQ(a.leases[0], (Lease{"a0", Ip("0.0.0.0:7000"), PortKind::kListener, {1000, kOwner, 0}}));
  EXPECT_EQ(a.leases[1].kind, PortKind::kConnector);
  EXPECT_EQ(a.leases[2].local, a.ephemeral);
  EXPECT_EQ(a.leases[3].kind, PortKind::kSharedEndpoint);
  World w;
  const auto c = w.Open(0, 1000, kOwner);
  const Handle l = w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(w.Leases().size(), 1u);
  w.Close(c, l);
  EXPECT_TRUE(w.Leases().empty());
  w.Listener(c, "10.0.0.1:7000");
  w.Die(c);
  EXPECT_TRUE(w.Leases().empty()) << "a client that died needs no port";
}

TEST(Leases, OtherProcessesDoNotGetThePort) {
  AfterCrash a;
  World& w = a.w;
  for (const std::uint32_t uid : {1000u, 1001u, 0u}) {
    const auto stranger = w.Open(0, uid, kStranger);
    const Complete refused = BindNew(w, stranger, "10.0.0.1:6000");
    EXPECT_EQ(refused.status, SC::kSharingViolation) << uid;
    EXPECT_NE(refused.status.message().find("reclaim-grace"), std::string::npos) << refused.status.message();
    EXPECT_NE(refused.status.message().find("process 4242 of uid 1000"), std::string::npos);
    EXPECT_EQ(ListenNew(w, stranger, "10.0.0.2:7000"), SC::kSharingViolation) << "under the wildcard";
    EXPECT_EQ(ListenNew(w, stranger, "0.0.0.0:6000"), SC::kSharingViolation) << "over the address";
    EXPECT_EQ(w.Try(stranger, CreateSharedEndpointOp{stranger.adapter, Ip("10.0.0.2:6001")}),
              SC::kSharingViolation);
    EXPECT_EQ(w.Try(stranger, BindOp{w.Connector(stranger), a.ephemeral}), SC::kSharingViolation);
  }
  // The same pid, but the process started later.
  w.open_born = 99;
  EXPECT_EQ(ListenNew(w, w.Open(0, 1000, kOwner), "0.0.0.0:7000"), SC::kSharingViolation);
}

TEST(Leases, EphemeralPortsAvoidThem) {
  World w;
  w.check_always = false;
  const auto owner = w.Open(0, 1000, kOwner);
  for (int i = 0; i < 16383; ++i) ASSERT_TRUE(BindNew(w, owner, "10.0.0.1:0").status.ok());
  w.Restart(0, w.Leases(), seconds(10));
  const auto stranger = w.Open(0, 1001, kStranger);
  EXPECT_TRUE(BindNew(w, stranger, "10.0.0.1:0").status.ok()) << "one was never taken";
  EXPECT_EQ(BindNew(w, stranger, "10.0.0.1:0").status, SC::kTooManyAddresses);
  w.Advance(seconds(10));
  EXPECT_TRUE(BindNew(w, stranger, "10.0.0.1:0").status.ok());
  EXPECT_EQ(w.broker().CheckInvariants(), "");
}

TEST(Leases, HolderTakesThemBackByAnyOperation) {
  AfterCrash a;
  World& w = a.w;
  const auto back = w.Open(0, 1000, kOwner), stranger = w.Open(0, 1000, kStranger);
  EXPECT_EQ(ListenNew(w, back, "0.0.0.0:7000"), SC::kSuccess);
  EXPECT_EQ(BindNew(w, back, "10.0.0.1:6000").status, SC::kSuccess);
  EXPECT_EQ(ListenNew(w, back, a.ephemeral.ToString()), SC::kSuccess) << "for another purpose";
  EXPECT_EQ(ListenNew(w, back, "0.0.0.0:6001"), SC::kSuccess) << "and wider than before";
  EXPECT_EQ(ListenNew(w, stranger, "10.0.0.2:6001"), SC::kSharingViolation);
  EXPECT_EQ(w.Leases().size(), 4u);
  // From here on they are ordinary ports: a released one is free for every process, even within the grace
  // time.
  w.Die(back);
  EXPECT_TRUE(w.Leases().empty());
  EXPECT_EQ(ListenNew(w, stranger, "10.0.0.1:7000"), SC::kSuccess);
  w.Advance(seconds(20));
  EXPECT_EQ(ListenNew(w, w.Open(), "10.0.0.1:7000"), SC::kSharingViolation)
      << "its own is not ended with them";
}

TEST(Leases, FailedAttemptLeavesThemUnchanged) {
  Rule none;
  none.limits.ports = 0;
  World w(1, {}, Policy({none}));
  w.Restart(0, {{"a0", Ip("10.0.0.1:7000"), PortKind::kListener, {1000, kOwner, 0}}}, seconds(10));
  EXPECT_EQ(ListenNew(w, w.Open(0, 1000, kOwner), "10.0.0.1:7000"), SC::kInsufficientResources);
  EXPECT_EQ(ListenNew(w, w.Open(0, 1000, kStranger), "10.0.0.1:7000"), SC::kSharingViolation);
  EXPECT_TRUE(w.Seen<LeaseFreed>().empty());
}

TEST(Leases, EndWithTheGraceTime) {
  AfterCrash a;
  World& w = a.w;
  ASSERT_TRUE(w.broker().NextDeadline());
  EXPECT_EQ(*w.broker().NextDeadline(), w.now() + seconds(10));
  const auto stranger = w.Open(0, 1001, kStranger);
  w.Advance(seconds(10) - milliseconds(1));
  EXPECT_EQ(ListenNew(w, stranger, "10.0.0.1:7000"), SC::kSharingViolation);
  w.Advance(milliseconds(1));
  EXPECT_EQ(w.Seen<LeaseFreed>().size(), 4u) << "the journal hears of it";
  EXPECT_EQ(ListenNew(w, stranger, "10.0.0.1:7000"), SC::kSuccess);
  EXPECT_EQ(BindNew(w, stranger, "10.0.0.1:6000").status, SC::kSuccess);
  EXPECT_FALSE(w.broker().NextDeadline());
}

TEST(Leases, SeveralRestartsInARowKeepThem) {
  AfterCrash a;
  World& w = a.w;
  std::vector<Lease> journal = a.leases;
  for (int restart = 0; restart < 20; ++restart) {
    w.Advance(seconds(9));
    EXPECT_EQ(ListenNew(w, w.Open(0, 1001, kStranger), "10.0.0.1:7000"), SC::kSharingViolation) << restart;
    EXPECT_TRUE(w.Seen<LeaseFreed>().empty());
    w.Restart(0, journal, seconds(10));
  }
  const auto back = w.Open(0, 1000, kOwner);
  EXPECT_EQ(ListenNew(w, back, "0.0.0.0:7000"), SC::kSuccess);
}

TEST(Leases, ListPortsShowsThem) {
  AfterCrash a;
  const std::vector<PortRow> rows = a.w.broker().Ports();
  ASSERT_EQ(rows.size(), 4u);
  for (const PortRow& row : rows) {
    EXPECT_EQ(row.kind, "lease");
    EXPECT_EQ(row.state, "held");
    ASSERT_TRUE(row.owner);
    EXPECT_EQ(row.owner->uid, 1000u);
    EXPECT_EQ(row.owner->pid, kOwner);
    EXPECT_FALSE(row.holder);
  }
}

TEST(Leases, ContradictoryLeasesAreLeftOut) {
  World w;
  const Process p{1000, kOwner, 0};
  w.Restart(0,
            {{"a0", Ip("0.0.0.0:7000"), PortKind::kListener, p},
             {"a0", Ip("10.0.0.1:7000"), PortKind::kListener, p},
             {"gone0", Ip("10.0.0.1:7001"), PortKind::kListener, p},
             {"a0", Ip("10.0.0.1"), PortKind::kConnector, p},
             {"a0", Address(), PortKind::kConnector, p}},
            seconds(10));
  EXPECT_EQ(w.broker().Ports().size(), 1u);
}

TEST(Leases, ConnectToALeaseIsRefused) {
  World w(2);
  w.Restart(1, {{"a0", Ip("10.0.1.1:7000"), PortKind::kListener, {1000, kOwner, 0}}}, seconds(10));
  const auto c = w.Open(0);
  EXPECT_EQ(w.Code(c, w.Connect(c, w.Bound(c, "10.0.0.1:0"), w.Qp(c), "10.0.1.1:7000")),
            SC::kConnectionRefused);
}

TEST(Leases, ConnectionsAndTheirListenerReturnToOnePort) {
  World w(2);
  w.Pair(Stage::kConnected);
  const std::vector<Lease> journal = w.Leases(1);
  ASSERT_EQ(journal.size(), 1u) << "a listener and its connections hold one port";
  const std::uint32_t pid = journal[0].holder.pid;
  w.Restart(1, journal, seconds(10));
  const auto back = w.Open(1, 1000, pid), stranger = w.Open(1, 1000, pid + 1);
  const ReattachOp op = w.Returning(back, "10.0.1.1:7000", "10.0.0.1:6000", true);
  const Complete reattached = w.Call(back, op);
  EXPECT_NE(reattached.status, SC::kSharingViolation) << reattached.status.message();
  EXPECT_EQ(ListenNew(w, stranger, "10.0.1.1:7000"), SC::kSharingViolation);
  EXPECT_EQ(ListenNew(w, back, "10.0.1.1:7000"), SC::kSuccess);
}

// After any sequence, the leases according to the actions are the held ports.
TEST(Leases, ActionsAlwaysMatchThePorts) {
  World w;
  std::uint32_t random = 1;
  const auto next = [&random](std::uint32_t bound) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % bound;
  };
  std::vector<Lease> journal;
  for (int life = 0; life < 40; ++life) {
    std::vector<World::Client> clients;
    for (std::uint32_t pid = 1; pid <= 3; ++pid) clients.push_back(w.Open(0, 1000 + pid % 2, pid));
    std::vector<std::pair<World::Client, Handle>> open;
    for (int step = 0; step < 60; ++step) {
      const auto& c = clients[next(3)];
      const std::string ip = next(3) == 0 ? "0.0.0.0:" : "10.0.0.1:";
      const std::string local = ip + std::to_string(next(4) == 0 ? 0 : 7000 + next(6));
      if (next(3) == 0 && !open.empty()) {
        const auto [owner, handle] = open[next(static_cast<std::uint32_t>(open.size()))];
        w.Close(owner, handle);
      } else if (next(2) == 0) {
        const Handle l = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
        w.Try(c, ListenOp{l, 0, Ip(local), false});
        open.emplace_back(c, l);
      } else if (local[0] != '0') {
        open.emplace_back(c, BindNew(w, c, local).reply.handle);
      }
      if (next(8) == 0) w.Advance(seconds(next(4)));
    }
    // The journal of this broker: the leases it took over, changed by its actions.
    for (const Action& action : w.Log(0)) {
      if (const auto* taken = std::get_if<LeaseTaken>(&action)) journal.push_back(taken->lease);
      if (const auto* freed = std::get_if<LeaseFreed>(&action)) {
        EXPECT_EQ(std::erase_if(journal, [&](const Lease& l) { return l.local == freed->local; }), 1u);
      }
    }
    std::vector<Address> said, held;
    for (const Lease& lease : journal) said.push_back(lease.local);
    for (const PortRow& row : w.broker().Ports()) held.push_back(row.local);
    std::sort(said.begin(), said.end());
    std::sort(held.begin(), held.end());
    ASSERT_EQ(said, held) << "life " << life;
    w.Restart(0, journal, seconds(10));
  }
}

TEST(Leases, AreFreeAtOnceWhenTheirHolderEndsMeanwhile) {
  AfterCrash a;
  const auto stranger = a.w.Open(0, 1000, kStranger);
  EXPECT_EQ(ListenNew(a.w, stranger, "0.0.0.0:7000"), SC::kSharingViolation);
  a.w.ended.insert(kOwner);
  EXPECT_EQ(ListenNew(a.w, stranger, "0.0.0.0:7000"), SC::kSuccess);
  EXPECT_EQ(BindNew(a.w, stranger, "10.0.0.1:6000").status.code(), SC::kSuccess);
  const std::vector<PortRow> rows = a.w.broker().Ports();
  EXPECT_EQ(std::ranges::count(rows, "lease", &PortRow::kind), 2) << "the others wait for somebody to ask";
}

std::vector<PortRow> LeaseRows(const World& w) {
  std::vector<PortRow> rows = w.broker().Ports();
  std::erase_if(rows, [](const PortRow& row) { return row.kind != "lease"; });
  return rows;
}

TEST(Leases, HostPortsAreHeldUntilTheirHolderHasThem) {
  AfterCrash a;
  World& w = a.w;
  w.KeepPorts();
  const std::string chosen = a.ephemeral.ToString();
  auto held = w.HostPorts();
  std::sort(held.begin(), held.end());
  EXPECT_EQ(held,
            (std::vector<std::string>{"+0.0.0.0:7000", "+10.0.0.1:6000", "+" + chosen, "+10.0.0.2:6001"}));
  w.ClearLog();
  w.KeepPorts();
  EXPECT_TRUE(w.HostPorts().empty()) << "once is enough";
  w.Restart(0, a.leases, seconds(10));
  w.KeepPorts();
  const std::size_t before = w.HostPorts().size();
  const auto back = w.Open(0, 1000, kOwner);
  EXPECT_EQ(ListenNew(w, back, "0.0.0.0:6001"), SC::kSuccess) << "wider than before";
  EXPECT_EQ(BindNew(w, back, "10.0.0.1:6000").status, SC::kSuccess);
  w.Advance(seconds(10));
  auto after = w.HostPorts();
  after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before));
  ASSERT_EQ(after.size(), 6u);
  // The new reservation precedes the release, so no other program can take the port in between.
  EXPECT_EQ(
      std::vector<std::string>(after.begin(), after.begin() + 4),
      (std::vector<std::string>{"+0.0.0.0:6001", "-10.0.0.2:6001", "+10.0.0.1:6000", "-10.0.0.1:6000"}));
  std::sort(after.begin() + 4, after.end());
  EXPECT_EQ(std::vector<std::string>(after.begin() + 4, after.end()),
            (std::vector<std::string>{"-0.0.0.0:7000", "-" + chosen}))
      << "nobody came for them";
}

TEST(Leases, PortTakenByAnotherProgramIsReported) {
  AfterCrash a;
  World& w = a.w;
  w.reserve_answers[6000] = SC::kSharingViolation;
  w.KeepPorts();
  w.KeepPorts();
  std::size_t told = 0;
  for (const Notice& notice : w.Seen<Notice>()) told += notice.type == "lease.unheld";
  EXPECT_EQ(told, 1u) << "tried again, said once";
  for (const PortRow& row : LeaseRows(w)) {
    EXPECT_EQ(row.state, row.local == Ip("10.0.0.1:6000") ? "unheld" : "held");
    EXPECT_EQ(row.comment, row.local == Ip("10.0.0.1:6000") ? "host" : "");
  }
  const auto back = w.Open(0, 1000, kOwner), stranger = w.Open(0, 1000, kStranger);
  EXPECT_EQ(BindNew(w, stranger, "10.0.0.1:6000").status, SC::kSharingViolation);
  EXPECT_EQ(BindNew(w, back, "10.0.0.1:6000").status, SC::kSharingViolation) << "as the host says";
  w.reserve_answers.clear();
  EXPECT_EQ(BindNew(w, back, "10.0.0.1:6000").status, SC::kSuccess);
  const auto ports = w.HostPorts();
  EXPECT_EQ(std::count(ports.begin(), ports.end(), "-10.0.0.1:6000"), 0) << "it was never held";
}

TEST(Leases, TakenBackBeforeTheHostHasAnswered) {
  AfterCrash a;
  World& w = a.w;
  w.answer_reserves = false;
  w.KeepPorts();
  const auto back = w.Open(0, 1000, kOwner);
  const OpId bind = w.Submit(back, BindOp{w.Connector(back), Ip("10.0.0.1:6000")});
  const std::vector<CmReserve> asked = w.Seen<CmReserve>();
  ASSERT_EQ(asked.size(), 5u);
  for (std::size_t i = 0; i < 4; ++i) w.Step(0, CmReserved{asked[i].endpoint, {}});
  EXPECT_EQ(w.Code(back, bind), SC::kPending) << "its own is still to come";
  w.Step(0, CmReserved{asked[4].endpoint, {}});
  EXPECT_EQ(w.Code(back, bind), SC::kSuccess);
}

}  // namespace
}  // namespace nd::core
