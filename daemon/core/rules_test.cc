// SPDX-License-Identifier: Apache-2.0
// The pure parts: read limits, port conflicts, 4-tuples, quotas, policy, handles, addresses, idempotence.
#include <gtest/gtest.h>

#include <set>

#include "daemon/core/address_rules.h"
#include "daemon/core/core_harness.h"
#include "daemon/core/listener_queue.h"
#include "daemon/core/op_log.h"
#include "daemon/core/port_space.h"
#include "daemon/core/prng.h"
#include "daemon/core/quota.h"
#include "daemon/core/read_limits.h"
#include "daemon/core/slot_table.h"
#include "daemon/core/tuple_table.h"

namespace nd::core {
namespace {

// ---- read limits: the table of the specification, one row each
struct LimitRow {
  ReadLimits active_caps, connect, passive_caps, accept, passive_sees, active_final, passive_final;
};

TEST(ReadLimits, ND_116_124_TableOfTheSpecification) {
  const std::vector<LimitRow> rows = {
      {{16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}, {16, 16}},
      {{16, 16}, {0, 8}, {16, 16}, {16, 0}, {8, 0}, {0, 8}, {8, 0}},
      {{4, 4}, {100, 100}, {16, 1}, {100, 100}, {4, 1}, {1, 4}, {4, 1}},
      {{16, 128}, {1, 200}, {64, 16}, {32, 10}, {64, 1}, {1, 32}, {32, 1}},
      {{16, 16}, {0, 0}, {16, 16}, {5, 5}, {0, 0}, {0, 0}, {0, 0}},
      {{16, 16}, {8, 8}, {16, 16}, {0, 0}, {8, 8}, {0, 0}, {0, 0}},
      {{0, 16}, {9, 9}, {16, 16}, {9, 9}, {9, 0}, {0, 9}, {9, 0}},
      {{16, 16}, {3, 12}, {8, 2}, {4, 1}, {8, 2}, {1, 4}, {4, 1}},
      {{255, 255}, {4000, 4000}, {255, 255}, {4000, 4000}, {255, 255}, {255, 255}, {255, 255}},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LimitRow& r = rows[i];
    const ReadLimits offer = CapOffer(r.connect, r.active_caps);
    EXPECT_EQ(PassiveView(offer, r.passive_caps), r.passive_sees) << i + 1;
    const ReadLimits passive = AcceptLimits(r.accept, offer, r.passive_caps);
    EXPECT_EQ(passive, r.passive_final) << i + 1;
    EXPECT_EQ(ActiveFinal(offer, passive, r.active_caps), r.active_final) << i + 1;
  }
}

TEST(ReadLimits, BothEndsAlwaysAgree) {
  Prng prng(1);
  const auto any = [&] { return ReadLimits{prng.Below(20), prng.Below(20)}; };
  for (int i = 0; i < 20000; ++i) {
    const ReadLimits active_caps = any(), passive_caps = any();
    const ReadLimits offer = CapOffer(any(), active_caps);
    const ReadLimits passive = AcceptLimits(any(), offer, passive_caps);
    const auto active = ActiveFinal(offer, passive, active_caps);
    ASSERT_TRUE(active.has_value());
    ASSERT_EQ(active->inbound, passive.outbound);
    ASSERT_EQ(active->outbound, passive.inbound);
    ASSERT_LE(active->inbound, active_caps.inbound);
    ASSERT_LE(active->outbound, active_caps.outbound);
  }
}

TEST(ReadLimits, PeerThatWantsMoreThanOffered) {
  EXPECT_EQ(ActiveFinal({2, 2}, {9, 4}, {4, 4}), (ReadLimits{4, 2}));  // Raised to its request.
  EXPECT_EQ(ActiveFinal({2, 2}, {9, 5}, {4, 4}), std::nullopt);
}

// ---- port space
TEST(PortSpace, ConflictTableCellByCell) {
  using enum PortAnswer;
  const std::vector<Holding> rows = {Holding::kNothing,   Holding::kListener, Holding::kListenerClosing,
                                     Holding::kConnector, Holding::kEndpoint, Holding::kEndpointClosing,
                                     Holding::kLease};
  const std::vector<std::vector<PortAnswer>> want = {
      {kOk, kOk, kOk, kNotApplicable, kRefused},
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kOk},
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kRefused},
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kRefused},
      {kSharingViolation, kSharingViolation, kSharingViolation, kOk, kRefused},
      {kSharingViolation, kSharingViolation, kSharingViolation, kSharingViolation, kRefused},
      {kSharingViolation, kSharingViolation, kSharingViolation, kNotApplicable, kRefused}};
  const std::vector<Newcomer> columns = {Newcomer::kListen, Newcomer::kExclusive, Newcomer::kCreateEndpoint,
                                         Newcomer::kConnectShared, Newcomer::kInbound};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c)
      EXPECT_EQ(MayTake(rows[r], columns[c]), want[r][c]) << r << c;
  }
}

TEST(PortSpace, WildcardConflictsOnItsAdapterAndFamilyOnly) {
  PortSpace ports(1, 49152, 65535);
  const PortKey wild = PortKey::Of(0, Ip("0.0.0.0:7000"));
  ports.Add(wild, {});
  EXPECT_EQ(ports.Check(PortKey::Of(0, Ip("10.0.0.1:7000")), Newcomer::kExclusive).code(),
            StatusCode::kSharingViolation);
  EXPECT_TRUE(ports.Check(PortKey::Of(1, Ip("10.0.0.1:7000")), Newcomer::kExclusive).ok());
  EXPECT_TRUE(ports.Check(PortKey::Of(0, Ip("[fd00::1]:7000")), Newcomer::kExclusive).ok());
  EXPECT_TRUE(ports.Check(PortKey::Of(0, Ip("10.0.0.1:7001")), Newcomer::kExclusive).ok());
  EXPECT_TRUE(ports.Release(wild).has_value());
  ports.Add(PortKey::Of(0, Ip("10.0.0.1:7000")), {});
  EXPECT_EQ(ports.Check(wild, Newcomer::kListen).code(), StatusCode::kSharingViolation);
}

TEST(PortSpace, ExactCapacityAndLeastRecentlyUsed) {
  PortSpace ports(9, 49152, 65535);
  const Address ip = Ip("10.0.0.1");
  ports.Add(PortKey::Of(0, Ip("10.0.0.1:50000")), {});
  std::set<std::uint16_t> seen;
  std::uint16_t first = 0;
  for (int i = 0; i < 16383; ++i) {
    const auto port = ports.Choose(0, ip);
    ASSERT_TRUE(port.ok());
    if (i == 0) first = *port;
    ASSERT_TRUE(seen.insert(*port).second);
    ASSERT_NE(*port, 50000);
    ports.Add(PortKey::Of(0, ip.WithPort(*port)), {});
  }
  EXPECT_EQ(ports.Choose(0, ip).code(), StatusCode::kTooManyAddresses);
  EXPECT_EQ(ports.EphemeralUsed(0), 16384u);
  EXPECT_EQ(ports.Choose(0, Ip("0.0.0.0")).code(), StatusCode::kTooManyAddresses);
  EXPECT_TRUE(ports.Choose(0, Ip("10.0.0.2")).ok());
  ports.Release(PortKey::Of(0, Ip("10.0.0.1:50000")));
  ports.Release(PortKey::Of(0, ip.WithPort(first)));
  EXPECT_EQ(*ports.Choose(0, ip), 50000);  // Released earlier.
}

// ---- 4-tuples
TEST(TupleTable, OneHolderUnlessHeadToHead) {
  TupleTable tuples;
  const TupleKey key{0, Ip("1.1.1.1:1"), Ip("2.2.2.2:2")};
  tuples.Put(key, Role::kActive, {1, {}});
  EXPECT_NE(tuples.Conflict(key, Role::kPassive, false).attempt, 0u);
  EXPECT_EQ(tuples.Conflict(key, Role::kPassive, true).attempt, 0u);
  EXPECT_NE(tuples.Conflict(key, Role::kActive, true).attempt, 0u);
  tuples.Put(key, Role::kPassive, {2, {}});
  tuples.Put(key, Role::kPassive, {3, {}});  // Replaces a stale holder.
  EXPECT_EQ(tuples.size(), 2u);
  tuples.Erase(key, Role::kPassive, 2);  // No longer the holder.
  EXPECT_EQ(tuples.size(), 2u);
  tuples.Erase(key, Role::kPassive, 3);
  tuples.Erase(key, Role::kActive, 1);
  EXPECT_EQ(tuples.size(), 0u);
  EXPECT_EQ(tuples.Conflict({1, key.local, key.remote}, Role::kActive, false).attempt, 0u);
}

// ---- quotas
TEST(Quota, TokensReturnTheirChargeOnEveryPath) {
  Quota quota;
  {
    auto one = quota.Charge(5, Resource::kPorts, 2);
    auto two = quota.Charge(5, Resource::kPorts, 2);
    ASSERT_TRUE(one && two);
    EXPECT_FALSE(quota.Charge(5, Resource::kPorts, 2).has_value());
    EXPECT_TRUE(quota.Charge(6, Resource::kPorts, 1).has_value());  // Its token is destroyed at once.
    Quota::Token moved = std::move(*one);
    EXPECT_EQ(quota.usage().at(5)[static_cast<std::size_t>(Resource::kPorts)], 2u);
    moved = std::move(*two);
    EXPECT_EQ(quota.usage().at(5)[static_cast<std::size_t>(Resource::kPorts)], 1u);
  }
  EXPECT_TRUE(quota.usage().empty());
  EXPECT_FALSE(quota.Charge(5, Resource::kSessions, 0).has_value());
  EXPECT_TRUE(quota.usage().empty());
}

// ---- policy
Rule MakeRule(std::string name) {
  Rule rule;
  rule.name = std::move(name);
  return rule;
}

TEST(Policy, FirstMatchWinsSeparatelyForEachQuestion) {
  Rule web = MakeRule("web");
  web.uid = 33;
  web.listen = std::vector<Prefix>{{Ip("10.0.0.0"), 8, 80, 443}};
  Rule limits = MakeRule("limits");
  limits.limits.connectors = 5;
  Rule nobody = MakeRule("nobody");
  nobody.listen = std::vector<Prefix>{};
  nobody.connect = std::vector<Prefix>{{Ip("::"), 0, 0, 65535}};
  const Policy policy({web, limits, nobody});
  Identity www, other;
  www.uid = 33;
  other.uid = 34;
  EXPECT_TRUE(policy.MayListen(www, Ip("10.9.8.7:80")).allowed);
  EXPECT_EQ(policy.MayListen(www, Ip("10.9.8.7:80")).rule, "web");
  EXPECT_FALSE(policy.MayListen(www, Ip("10.9.8.7:444")).allowed);
  EXPECT_FALSE(policy.MayListen(www, Ip("11.0.0.1:80")).allowed);
  EXPECT_FALSE(policy.MayListen(other, Ip("10.9.8.7:80")).allowed);
  EXPECT_EQ(policy.MayListen(other, Ip("10.9.8.7:80")).rule, "nobody");
  EXPECT_TRUE(policy.MayConnect(www, Ip("[fd00::1]:1")).allowed);
  EXPECT_FALSE(policy.MayConnect(www, Ip("10.0.0.1:1")).allowed);
  EXPECT_EQ(policy.LimitsOf(www).connectors, 5u);
  EXPECT_EQ(policy.LimitsOf(www).sessions, 256u);
  EXPECT_EQ(Policy().MayConnect(www, Ip("1.2.3.4:5")).rule, "default");
}

TEST(Policy, ExplainListsEveryRuleUpToTheDecidingOne) {
  Rule uid = MakeRule("uid"), gid = MakeRule(""), cgroup = MakeRule("cgroup"), silent = MakeRule("silent"),
       decides = MakeRule("decides"), behind = MakeRule("behind");
  uid.uid = 7;
  gid.gid = 7;
  cgroup.cgroup = "/jobs";
  silent.connect = std::vector<Prefix>{};
  decides.listen = std::vector<Prefix>{{Ip("10.0.0.0"), 8, 0, 65535}};
  const Policy policy({uid, gid, cgroup, silent, decides, behind});
  Identity who;
  who.uid = who.gid = 8;
  const Explanation allowed = policy.Explain(PolicyVerb::kListen, who, Ip("10.0.0.1:5"));
  using enum RuleStep::Match;
  std::vector<RuleStep::Match> seen;
  for (const RuleStep& step : allowed.steps) seen.push_back(step.match);
  EXPECT_EQ(seen, (std::vector{kOtherUid, kOtherGid, kOtherCgroup, kSilent, kAllows}));
  EXPECT_TRUE(allowed.verdict.allowed);
  EXPECT_EQ(allowed.steps[0].reason, "Rule uid is about uid 7, not 8.");
  EXPECT_EQ(allowed.steps[1].reason, "Rule (unnamed) is about gid 7, not 8.");
  EXPECT_EQ(allowed.steps[2].reason, "Rule cgroup is about cgroup /jobs, not (none).");
  EXPECT_EQ(allowed.steps[3].reason, "Rule silent has no list of what it allows to listen on.");
  EXPECT_EQ(allowed.steps[4].reason, allowed.verdict.reason);
  const Explanation forbidden = policy.Explain(PolicyVerb::kListen, who, Ip("11.0.0.1:5"));
  EXPECT_EQ(forbidden.steps.back().match, kForbids);
  EXPECT_EQ(forbidden.verdict.rule, "decides");
  const Explanation none = Policy({uid}).Explain(PolicyVerb::kConnect, who, Ip("11.0.0.1:5"));
  EXPECT_EQ(none.steps.size(), 1u);
  EXPECT_EQ(none.verdict.rule, "default");
}

TEST(Policy, RulesNamePods) {
  Rule team = MakeRule("team"), web = MakeRule("web"), robot = MakeRule("robot");
  team.pod_namespace = "shop";
  team.pod = "db-0";
  team.listen = std::vector<Prefix>{{Ip("0.0.0.0"), 0, 5432, 5432}};
  web.pod = "web-1";
  web.listen = std::vector<Prefix>{{Ip("0.0.0.0"), 0, 80, 80}};
  robot.service_account = "robot";
  robot.limits.listeners = 2;
  Rule nobody = MakeRule("nobody");
  nobody.listen = std::vector<Prefix>{};
  const Policy policy({team, web, robot, nobody});
  Identity db, other_team, www, host;
  db.pod = {"shop", "db-0", "robot"};
  other_team.pod = {"test", "db-0", ""};
  www.pod = {"shop", "web-1", ""};
  EXPECT_TRUE(policy.MayListen(db, Ip("10.0.0.1:5432")).allowed);
  EXPECT_EQ(policy.MayListen(db, Ip("10.0.0.1:80")).rule, "team");
  EXPECT_EQ(policy.MayListen(other_team, Ip("10.0.0.1:5432")).rule, "nobody");
  EXPECT_TRUE(policy.MayListen(www, Ip("10.0.0.1:80")).allowed);
  EXPECT_EQ(policy.MayListen(host, Ip("10.0.0.1:5432")).rule, "nobody");
  EXPECT_EQ(policy.LimitsOf(db).listeners, 2u);
  EXPECT_EQ(policy.LimitsOf(www).listeners, 4096u);
  const Explanation explained = policy.Explain(PolicyVerb::kListen, other_team, Ip("10.0.0.1:5432"));
  ASSERT_EQ(explained.steps.size(), 4u);
  EXPECT_EQ(explained.steps[0].match, RuleStep::Match::kOtherPod);
  EXPECT_EQ(explained.steps[0].reason, "Rule team is about pod-namespace shop, not test.");
  EXPECT_EQ(explained.steps[1].reason, "Rule web is about pod web-1, not db-0.");
  EXPECT_EQ(explained.steps[2].reason, "Rule robot is about service-account robot, not (none).");
}

TEST(Policy, PrefixBitsAndCgroups) {
  EXPECT_TRUE((Prefix{Ip("10.0.0.128"), 25, 0, 65535}).Contains(Ip("10.0.0.200")));
  EXPECT_FALSE((Prefix{Ip("10.0.0.128"), 25, 0, 65535}).Contains(Ip("10.0.0.100")));
  EXPECT_TRUE((Prefix{Ip("10.0.0.1"), 32, 0, 65535}).Contains(Ip("10.0.0.1")));
  EXPECT_TRUE((Prefix{Ip("10.0.0.1"), 255, 0, 65535}).Contains(Ip("10.0.0.1")));
  EXPECT_FALSE((Prefix{Ip("10.0.0.1"), 32, 0, 65535}).Contains(Ip("::1")));
  Rule rule = MakeRule("job");
  rule.cgroup = "/jobs/a";
  rule.connect = std::vector<Prefix>{};
  const Policy policy({rule});
  Identity who;
  for (const auto& [cgroup, allowed] : std::vector<std::pair<std::string, bool>>{
           {"/jobs/a", false}, {"/jobs/a/b", false}, {"/jobs/ab", true}, {"/jobs", true}, {"", true}}) {
    who.cgroup = cgroup;
    EXPECT_EQ(policy.MayConnect(who, Ip("1.1.1.1:1")).allowed, allowed) << cgroup;
  }
  who.cgroup = "/jobs/b";
  EXPECT_EQ(policy.Explain(PolicyVerb::kConnect, who, Ip("1.1.1.1:1")).steps[0].reason,
            "Rule job is about cgroup /jobs/a, not /jobs/b.");
  for (const char* root : {"/", "", "/jobs/", "/jobs//"}) {
    rule.cgroup = root;
    who.cgroup = "/jobs/b";
    EXPECT_TRUE(IsAbout(rule, who)) << root;
  }
  rule.cgroup = "/jobs/";
  who.cgroup = "/jobsworth";
  EXPECT_FALSE(IsAbout(rule, who));
}

TEST(Policy, PrefixOfABadAddressContainsNothing) {
  const Prefix all{Ip("0.0.0.0"), 0, 0, 65535}, ports{Ip("0.0.0.0"), 0, 80, 90};
  const Address cut = Address::FromParts(Address::Family::kIpv4, "abc", 80);
  EXPECT_FALSE(all.Contains(cut));
  EXPECT_FALSE((Prefix{cut, 0, 0, 65535}).Contains(Ip("10.0.0.1:80")));
  EXPECT_FALSE(all.Contains(Ip("[fd00::1]:80")));
  EXPECT_FALSE(ports.Contains(Ip("10.0.0.1:79")));
  EXPECT_TRUE(ports.Contains(Ip("10.0.0.1:80")));
  EXPECT_TRUE(ports.Contains(Ip("10.0.0.1:90")));
  EXPECT_FALSE(ports.Contains(Ip("10.0.0.1:91")));
}

// Group 0 of another user namespace is not the host's.
TEST(Policy, GroupZeroOfAForeignNamespaceIsNobody) {
  Rule wheel = MakeRule("wheel"), nogroup = MakeRule("nogroup");
  wheel.gid = 0;
  nogroup.gid = 65534;
  Identity who;
  EXPECT_TRUE(IsAbout(wheel, who));
  who.foreign_namespace = true;
  EXPECT_FALSE(IsAbout(wheel, who));
  EXPECT_TRUE(IsAbout(nogroup, who));
  who.gid = 8;
  EXPECT_FALSE(IsAbout(nogroup, who));
}

// No other rule of the pod is asked for an empty name.
TEST(Policy, RuleForAnEmptyPodNameMatchesNoPod) {
  Rule rule = MakeRule("pod");
  rule.pod = "";
  EXPECT_FALSE(IsAbout(rule, Identity()));
}

// ---- handles
TEST(SlotTable, HandlesOfOldGenerationsAndOtherEpochsAreInvalid) {
  SlotTable<int> table(3, 2);
  const Handle a = table.Insert(1), b = table.Insert(2);
  EXPECT_FALSE(table.Insert(3));
  EXPECT_EQ(*table.Find(a), 1);
  EXPECT_TRUE(table.Erase(a));
  EXPECT_FALSE(table.Erase(a));
  const Handle c = table.Insert(4);
  EXPECT_EQ(c.slot(), a.slot());
  EXPECT_EQ(table.Find(a), nullptr);
  EXPECT_EQ(*table.Find(c), 4);
  EXPECT_EQ(table.Find(Handle::Make(4, b.slot(), b.generation())), nullptr);
  EXPECT_EQ(table.Find(Handle{}), nullptr);
  EXPECT_EQ(table.Find(Handle{~0ull}), nullptr);
}

// ---- addresses and data
TEST(AddressRules, DestinationsAndPrivateData) {
  EXPECT_EQ(CheckDestinationShape(Address(), {}).code(), StatusCode::kInvalidAddress);
  EXPECT_EQ(CheckDestinationShape(Ip("::1"), Ip("1.2.3.4")).code(), StatusCode::kInvalidAddress);
  EXPECT_TRUE(CheckDestinationShape(Ip("0.0.0.0"), Ip("1.2.3.4")).ok());
  for (const char* ip : {"0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1", "[::]:1", "[ff02::1]:1"}) {
    EXPECT_EQ(CheckDestinationUsable(Ip(ip), false).code(), StatusCode::kNetworkUnreachable) << ip;
    EXPECT_EQ(CheckDestinationUsable(Ip(ip), true).code(), StatusCode::kBadNetworkName) << ip;
  }
  EXPECT_EQ(CheckDestinationUsable(Ip("1.2.3.4:0"), false).code(), StatusCode::kConnectionRefused);
  EXPECT_EQ(CheckPrivateData(0, 1, 9).code(), StatusCode::kAccessViolation);
  EXPECT_EQ(CheckPrivateData(10, 10, 9).code(), StatusCode::kInvalidBufferSize);
  EXPECT_TRUE(CheckPrivateData(9, 9, 9).ok());
  EXPECT_TRUE(CheckPrivateData(0, 0, 0).ok());
}

// ---- listener queue
TEST(ListenerQueue, OldestRequestGoesToTheOldestCall) {
  EXPECT_EQ(ListenerQueue::EffectiveBacklog(0, 64), 64u);
  EXPECT_EQ(ListenerQueue::EffectiveBacklog(100000, 64), 64u);
  EXPECT_EQ(ListenerQueue::EffectiveBacklog(2, 64), 2u);
  ListenerQueue queue;
  queue.set_limit(2);
  using enum ListenerQueue::Judgement;
  EXPECT_EQ(queue.Judge(), kWait);
  queue.AddRequest(1, {CmId{11}, {}, {}, {}, true, {}, {}});
  queue.AddRequest(2, {CmId{12}, {}, {}, {}, true, {}, {}});
  EXPECT_EQ(queue.Judge(), kFull);
  EXPECT_EQ(queue.TakeOldestRequest()->id, CmId{11});
  EXPECT_TRUE(queue.TakeRequest(2).has_value());
  EXPECT_FALSE(queue.TakeRequest(2).has_value());
  queue.AddGet(5, Handle{50});
  queue.AddGet(6, Handle{60});
  EXPECT_EQ(queue.Judge(), kDeliver);
  queue.set_paused(true);
  EXPECT_EQ(queue.Judge(), kPaused);
  EXPECT_TRUE(queue.RemoveGet(5));
  EXPECT_EQ(queue.TakeOldestGet(), Handle{60});
}

// ---- idempotence
TEST(OpLog, RemembersTheNewest1024) {
  OpLog log;
  for (OpId id = 1; id <= 1030; ++id) {
    log.Begin(id, id);
    EXPECT_EQ(log.Lookup(id), OpLog::Known::kRunning);
    log.End({{id, {}, {}}, SessionId{1}}, OpLog::kBytes);
  }
  EXPECT_EQ(log.Lookup(6), OpLog::Known::kNew);
  EXPECT_EQ(log.Lookup(7), OpLog::Known::kDone);
  EXPECT_EQ(log.Done(7).op_id, 7u);
  EXPECT_EQ(log.Done(1030).op_id, 1030u);
  EXPECT_EQ(log.running(), 0u);
}

Complete Heavy(OpId id, std::size_t bytes) {
  Complete complete{{id, {}, {}}, SessionId{1}};
  complete.reply.private_data.resize(bytes);
  return complete;
}

TEST(OpLog, WeighsCompletionsAndForgetsTheOldest) {
  OpLog log;
  std::size_t most = 0;
  for (OpId id = 1; id <= 1000; ++id) {
    log.Begin(id, id);
    log.End(Heavy(id, 4096), OpLog::kBytes);
    most = std::max(most, log.bytes());
  }
  EXPECT_LE(most, OpLog::kBytes);
  EXPECT_GT(log.bytes(), OpLog::kBytes - 2 * OpLog::Weight(Heavy(1, 4096)));
  const OpId oldest = 1001 - log.bytes() / OpLog::Weight(Heavy(1, 4096));
  EXPECT_EQ(log.Lookup(oldest - 1), OpLog::Known::kNew);
  EXPECT_EQ(log.Done(oldest).op_id, oldest);
  // When the user has used up the limit, a few completions are still remembered.
  for (OpId id = 1001; id <= 1100; ++id) {
    log.Begin(id, id);
    log.End(Heavy(id, 1024), 0);
    EXPECT_LE(log.bytes(), OpLog::kLeastBytes);
    EXPECT_EQ(log.Lookup(id), OpLog::Known::kDone);
  }
  // A completion above the bound is not remembered.
  log.Begin(2000, 2000);
  log.End(Heavy(2000, OpLog::kBytes), OpLog::kBytes);
  EXPECT_EQ(log.bytes(), 0u);
  EXPECT_EQ(log.Lookup(2000), OpLog::Known::kNew);
}

// ---- names
TEST(Names, DifferForEachNumber) {
  EXPECT_STREQ(PhaseName(Phase::kQueue), "queue");
  EXPECT_STREQ(PhaseName(Phase::kEstablish), "establish");
  EXPECT_STREQ(OutcomeName(ConnectionRecord::Outcome::kEstablished), "established");
  EXPECT_STREQ(OutcomeName(ConnectionRecord::Outcome::kKilled), "killed");
  EXPECT_STREQ(OutcomeName(ConnectionRecord::Outcome::kDied), "died");
  EXPECT_STREQ(Name(PortKind::kListener), "listener");
  EXPECT_STREQ(Name(PortKind::kSharedEndpoint), "shared endpoint");
  EXPECT_STREQ(Name(PortKind::kLease), "lease");
  EXPECT_STREQ(Name(Resource::kSessions), "sessions");
  EXPECT_STREQ(Name(Resource::kPorts), "ports");
  EXPECT_EQ(Name(ConnectorState::kUnbound), "Unbound");
  EXPECT_EQ(Name(ConnectorState::kDead), "Dead");
  EXPECT_EQ(Name(static_cast<ConnectorState>(kConnectorStates)), "?");
}

}  // namespace
}  // namespace nd::core
