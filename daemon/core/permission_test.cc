// SPDX-License-Identifier: Apache-2.0
// What a user may take: policy for every way to take a port, proofs of connections that come back, shares of
// the ephemeral ports, and root of another namespace.
#include <gtest/gtest.h>

#include "daemon/core/core_harness.h"
#include "daemon/core/fair_share.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using std::chrono::seconds;

constexpr std::uint32_t kService = 1001, kAttacker = 1002;

Policy NothingFor(std::uint32_t uid) {
  Rule rule;
  rule.name = "nothing";
  rule.uid = uid;
  rule.listen.emplace();
  rule.connect.emplace();
  return Policy({rule});
}

Settings Ephemeral(std::uint16_t first, std::uint16_t last) {
  Settings settings;
  settings.ephemeral_first = first;
  settings.ephemeral_last = last;
  return settings;
}

ConnectOp FromSource(World& w, const World::Client& c, const std::string& source) {
  ConnectOp op;
  op.connector = w.Connector(c);
  op.queue_pair = w.Qp(c);
  op.remote = Ip("10.0.0.2:7000");
  op.source = Ip(source);
  return op;
}

TEST(Permission, AnEmptyPolicyTakesNoPortByNumber) {
  World w(1, {}, NothingFor(kAttacker));
  const auto attacker = w.Open(0, kAttacker);
  for (const char* port : {"10.0.0.1:7000", "10.0.0.1:60000"}) {
    const Address local = Ip(port);
    const Complete bind = w.Call(attacker, BindOp{w.Connector(attacker), local});
    EXPECT_EQ(bind.status, SC::kAccessDenied) << port;
    EXPECT_EQ(bind.status.detail(), Detail::kPolicy);
    EXPECT_NE(bind.status.message().find("nothing"), std::string::npos) << bind.status.message();
    const Handle listener = w.Call(attacker, CreateListenerOp{attacker.adapter}).reply.handle;
    EXPECT_EQ(w.Try(attacker, BindOp{listener, local}), SC::kAccessDenied);
    EXPECT_EQ(w.Try(attacker, CreateSharedEndpointOp{attacker.adapter, local}), SC::kAccessDenied);
    EXPECT_EQ(w.Try(attacker, FromSource(w, attacker, port)), SC::kAccessDenied);
    EXPECT_TRUE(w.broker().Ports().empty());
    const auto service = w.Open(0, kService);
    EXPECT_TRUE(w.Listener(service, port));
    w.Die(service);
  }
}

TEST(Permission, AnyPortNeedsNoRule) {
  World w(1, {}, NothingFor(kAttacker));
  const auto c = w.Open(0, kAttacker);
  EXPECT_EQ(w.Try(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}), SC::kSuccess);
  EXPECT_EQ(w.Try(c, CreateSharedEndpointOp{c.adapter, Ip("10.0.0.1:0")}), SC::kSuccess);
}

TEST(Permission, ConnectNeedsARuleForItsDestination) {
  World w(1, {}, NothingFor(kAttacker));
  const auto service = w.Open(0, kService), attacker = w.Open(0, kAttacker);
  w.Listener(service, "10.0.0.2:7000");
  const Handle bound = w.Bound(attacker, "10.0.0.1:0");
  const OpId connect = w.Connect(attacker, bound, w.Qp(attacker), "10.0.0.2:7000");
  EXPECT_EQ(w.Code(attacker, connect), SC::kAccessDenied);
  EXPECT_EQ(w.Result(attacker, connect).status.detail(), Detail::kPolicy);
  EXPECT_TRUE(w.Seen<CmConnect>().empty());
}

TEST(Permission, ExplainAgreesWithTheBrokerAboutBinds) {
  Rule rule;
  rule.name = "storage";
  rule.uid = kService;
  rule.listen = {Prefix{Ip("10.0.0.0:0"), 8, 7000, 7010}};
  const Policy policy({rule});
  World w(1, {}, policy);
  const auto c = w.Open(0, kService);
  Identity who;
  who.uid = kService;
  for (const char* port : {"10.0.0.1:7005", "10.0.0.1:7011", "10.0.0.1:0"}) {
    const Explanation told = policy.Explain(PolicyVerb::kBind, who, Ip(port));
    EXPECT_EQ(told.verdict.allowed, w.Try(c, BindOp{w.Connector(c), Ip(port)}) == SC::kSuccess) << port;
    EXPECT_EQ(told.verdict.reason, policy.MayBind(who, Ip(port)).reason);
  }
}

// A shared endpoint with a port that the broker chose comes back although no rule allows its number.
TEST(Permission, ReturningObjectsNeedNoRuleForTheirPort) {
  World w(1, {}, NothingFor(kService));
  const Address mine = Ip("10.0.0.1:50000"), other = Ip("10.0.0.1:50001");
  w.Restart(0, {{"a0", mine, PortKind::kSharedEndpoint, {kService, 77, 0}}}, seconds(10));
  const auto c = w.Open(0, kService, 77);
  EXPECT_EQ(w.Try(c, CreateSharedEndpointOp{c.adapter, other}), SC::kAccessDenied);
  EXPECT_EQ(w.Try(c, CreateSharedEndpointOp{c.adapter, mine}), SC::kSuccess);
}

TEST(Proof, EqualsOnlyTheWholeProof) {
  EXPECT_TRUE(SameProof({1, 2, 3}, {1, 2, 3}));
  EXPECT_FALSE(SameProof({1, 2}, {1, 2, 3}));
  EXPECT_FALSE(SameProof({1, 2, 3}, {1, 2}));
  EXPECT_FALSE(SameProof({0, 2, 3}, {1, 2, 3}));
  EXPECT_FALSE(SameProof({1, 2, 2}, {1, 2, 3}));
  EXPECT_FALSE(SameProof({}, {}));
}

TEST(Proof, IsHandedOverAndBringsTheConnectionBack) {
  World w(2);
  const World::Up up = w.Pair(World::Stage::kConnected);
  Bytes proof;
  for (const Complete& done : w.Seen<Complete>(0)) {
    if (done.reply.hand_off != 0) proof = done.reply.proof;
  }
  ASSERT_FALSE(proof.empty());
  w.Restart(0, {}, seconds(10));
  const auto again = w.Open(0);
  ReattachOp op{again.adapter, w.Qp(again), Ip("10.0.0.1:6000"), Ip("10.0.1.1:7000"), {1, 1}, false};
  op.proof = proof;
  EXPECT_EQ(w.Try(again, op), SC::kSuccess);
}

TEST(Proof, AForgedReattachLeavesNoTrace) {
  World w;
  const auto c = w.Open(0, kAttacker), owner = w.Open(0, kService);
  const ReattachOp owners = w.Returning(owner, "10.0.0.1:7000", "10.0.5.1:6000", true);
  ReattachOp forged = owners;
  forged.adapter = c.adapter;
  forged.queue_pair = w.Qp(c);
  const auto refused = [&](const ReattachOp& op) {
    const Complete done = w.Call(c, op);
    EXPECT_EQ(done.status, SC::kAccessDenied) << done.status.ToString();
    EXPECT_NE(done.status.message().find("proof"), std::string::npos) << done.status.message();
    EXPECT_TRUE(w.broker().Connections().empty());
    EXPECT_TRUE(w.broker().Ports().empty());
    EXPECT_EQ(w.broker().counters().active_connection, 0u);
    EXPECT_TRUE(w.Seen<ConnectionRecord>().empty());
  };
  refused(forged);  // The proof of another user's connection.
  forged.proof.clear();
  refused(forged);
  ReattachOp mine = w.Returning(c, "10.0.0.1:7000", "10.0.5.1:6000", true);
  ReattachOp changed = mine;
  changed.passive = false;
  refused(changed);
  changed = mine;
  changed.remote = Ip("10.0.5.1:6001");
  refused(changed);
  changed = mine;
  changed.local = Ip("10.0.0.2:7000");
  refused(changed);
  changed = mine;
  changed.proof.back() ^= 1;
  refused(changed);
  EXPECT_EQ(w.Try(c, mine), SC::kSuccess);
}

TEST(Proof, IsTooLateAfterTheGraceTime) {
  World w;
  const auto c = w.Open(0, kService);
  ReattachOp first = w.Returning(c, "10.0.0.1:7000", "10.0.5.1:6000", true);
  const ReattachOp second = w.Returning(c, "10.0.0.1:7000", "10.0.5.1:6001", true);
  w.Advance(World::kGrace);
  EXPECT_EQ(w.Try(c, first), SC::kSuccess);
  w.Advance(seconds(1));
  const Complete late = w.Call(c, second);
  EXPECT_EQ(late.status, SC::kAccessDenied);
  EXPECT_NE(late.status.message().find("reclaim-grace"), std::string::npos);
}

// The broker ends a session and continues: the user of the session gets a grace time of its own.
TEST(Proof, ComesBackAfterItsSessionWasEnded) {
  World w;
  w.Advance(World::kGrace * 2);
  const auto lost = w.Open(0, kService), stranger = w.Open(0, kAttacker);
  w.Step(0, SessionClosed{lost.session, Status(StatusCode::kInsufficientResources, "It did not read.")});
  const auto again = w.Open(0, kService);
  EXPECT_EQ(w.Try(again, w.Returning(again, "10.0.0.1:7000", "10.0.5.1:6000", true)), SC::kSuccess);
  EXPECT_EQ(w.Try(stranger, w.Returning(stranger, "10.0.0.1:7001", "10.0.5.1:6000", true)),
            SC::kAccessDenied);
  w.Advance(World::kGrace + seconds(1));
  EXPECT_EQ(w.Try(again, w.Returning(again, "10.0.0.1:7000", "10.0.5.1:6001", true)), SC::kAccessDenied);
}

TEST(Proof, PolicyAppliesToReturningConnections) {
  World w(1, {}, NothingFor(kAttacker));
  const auto c = w.Open(0, kAttacker);
  for (const bool passive : {false, true}) {
    const Complete done = w.Call(c, w.Returning(c, "10.0.0.1:7000", "10.0.5.1:6000", passive));
    EXPECT_EQ(done.status, SC::kAccessDenied);
    EXPECT_EQ(done.status.detail(), Detail::kPolicy) << done.status.message();
  }
}

// While a port is free, a user without a port gets one, whatever other users have taken. The bound of every
// other user only shrinks with the number of free ports.
TEST(PortShare, UserWithoutPortsGetsOneWhileAnyIsFree) {
  for (const std::uint32_t range : {1u, 2u, 3u, 8u, 100u, 16384u}) {
    for (std::uint32_t free = 0; free <= range; ++free) {
      EXPECT_EQ(WithinFairShare(range, free, 0), free > 0);
      if (free == 0 || free * 4 > range) continue;
      EXPECT_FALSE(WithinFairShare(range, free, (free + 3) / 4)) << range << " " << free;
    }
    std::uint32_t free = range;
    std::vector<std::uint32_t> got;
    while (free > 0) {  // One greedy user after another takes all that it can get.
      std::uint32_t held = 0;
      while (WithinFairShare(range, free, held)) ++held, --free;
      ASSERT_GT(held, 0u);
      if (!got.empty()) {
        EXPECT_LE(held, got.back());
      }
      got.push_back(held);
    }
    EXPECT_LE(got.front(), range - range / 4);
    if (range == 16384) {
      EXPECT_EQ(got.front(), 12288u);
      EXPECT_GE(got[1], 800u);
      EXPECT_GE(got.size(), 30u);
    }
  }
}

TEST(PortShare, OneUserCannotTakeThemAll) {
  World w(1, Ephemeral(50000, 50015));
  w.check_always = true;
  const auto greedy = w.Open(0, kAttacker), honest = w.Open(0, kService), owner = w.Open(0, 1000);
  const auto take = [&](const World::Client& c, const std::string& local) {
    return w.Call(c, BindOp{w.Connector(c), Ip(local)}).status;
  };
  int got = 0;
  while (take(greedy, "10.0.0.1:0").ok()) ++got;
  EXPECT_EQ(got, 12);
  const Status full = take(greedy, "10.0.0.1:0");
  EXPECT_EQ(full, SC::kTooManyAddresses);
  EXPECT_EQ(full.detail(), Detail::kQuota) << full.message();
  for (int port = 50000; port <= 50015; ++port) {  // Nor by number.
    EXPECT_FALSE(take(greedy, "10.0.0.1:" + std::to_string(port)).ok());
    EXPECT_FALSE(take(greedy, "0.0.0.0:" + std::to_string(port)).ok());
  }
  EXPECT_TRUE(take(greedy, "10.0.0.1:7000").ok()) << "no ephemeral port";
  EXPECT_TRUE(take(greedy, "10.0.0.2:0").ok()) << "another address";
  EXPECT_TRUE(take(honest, "10.0.0.1:0").ok());
  int rest = 0;
  while (take(owner, "10.0.0.1:0").ok()) ++rest;
  EXPECT_EQ(rest, 3) << "the broker's owner shares with nobody";
}

TEST(PortShare, WildcardsCountAtEveryAddress) {
  World w(1, Ephemeral(50000, 50015));
  const auto greedy = w.Open(0, kAttacker), honest = w.Open(0, kService);
  int got = 0;
  for (int port = 50000; port <= 50015; ++port) {
    const Handle listener = w.Call(greedy, CreateListenerOp{greedy.adapter}).reply.handle;
    got += w.Try(greedy, BindOp{listener, Ip("0.0.0.0:" + std::to_string(port))}) == SC::kSuccess ? 1 : 0;
  }
  EXPECT_EQ(got, 12);
  EXPECT_EQ(w.Try(greedy, BindOp{w.Connector(greedy), Ip("10.0.0.1:0")}), SC::kTooManyAddresses);
  EXPECT_EQ(w.Try(honest, BindOp{w.Connector(honest), Ip("10.0.0.1:0")}), SC::kSuccess);
}

TEST(Namespaces, ForeignRootIsNobody) {
  Settings settings;
  settings.privileged_ports_below = 1024;
  Rule root;
  root.name = "root";
  root.uid = 0;
  root.limits.connectors = 1;
  World w(1, settings, Policy({root}));
  const auto host = w.Open(0, 0);
  w.open_foreign_namespace = true;
  const auto guest = w.Open(0, 0), user = w.Open(0, kService);
  EXPECT_EQ(w.Try(guest, BindOp{w.Connector(guest), Ip("10.0.0.1:80")}), SC::kAccessDenied);
  EXPECT_EQ(w.Try(guest, CreateConnectorOp{guest.adapter}), SC::kSuccess) << "no rule of root's is about it";
  EXPECT_EQ(w.Try(host, BindOp{w.Connector(host), Ip("10.0.0.1:80")}), SC::kSuccess);
  EXPECT_EQ(w.Try(host, CreateConnectorOp{host.adapter}), SC::kInsufficientResources)
      << "charged to the host";
  EXPECT_EQ(w.broker().UsageOf(65534)[static_cast<std::size_t>(Resource::kConnectors)], 2u);
  EXPECT_EQ(w.Try(user, CreateConnectorOp{user.adapter}), SC::kSuccess);
  EXPECT_EQ(w.broker().UsageOf(kService)[static_cast<std::size_t>(Resource::kConnectors)], 1u);
}

// Ports that are kept for uid 0 after a crash loop are not given to root of a container.
TEST(Namespaces, ForeignRootTakesNoPortThatIsKeptForRoot) {
  World w;
  w.Restart(0, {{"a0", Ip("10.0.0.1:7000"), PortKind::kListener, {0, 0, 0}}}, seconds(10));
  w.open_foreign_namespace = true;
  const auto guest = w.Open(0, 0);
  const Handle listener = w.Call(guest, CreateListenerOp{guest.adapter}).reply.handle;
  EXPECT_EQ(w.Try(guest, BindOp{listener, Ip("10.0.0.1:7000")}), SC::kSharingViolation);
  w.open_foreign_namespace = false;
  EXPECT_TRUE(w.Listener(w.Open(0, 0), "10.0.0.1:7000"));
}

TEST(Namespaces, PortsOfForeignRootDoNotBelongToRoot) {
  World w(1, Ephemeral(50000, 50015));
  const auto root = w.Open(0, 0);
  while (w.Try(root, BindOp{w.Connector(root), Ip("10.0.0.1:0")}) == SC::kSuccess) {
  }
  w.open_foreign_namespace = true;
  const auto guest = w.Open(0, 0);
  EXPECT_EQ(w.Try(guest, BindOp{w.Connector(guest), Ip("10.0.0.1:0")}), SC::kSuccess);
}

}  // namespace
}  // namespace nd::core
