// SPDX-License-Identifier: Apache-2.0
// Events of the administrator and of the provider, and the rows that the administrator reads (behaviour
// b.10).
#include <map>
#include <string>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

std::vector<std::string> Notes(const World& w, const std::string& prefix) {
  std::vector<std::string> types;
  for (const Notice& notice : w.Seen<Notice>()) {
    if (notice.type.starts_with(prefix)) types.push_back(std::string(notice.type) + " " + notice.object);
  }
  return types;
}

TEST(AdapterProblem, TakesTheAdapterOutOfUseUntilItIsSolved) {
  World w;
  const auto c = w.Open();
  const Handle k = w.Bound(c, "10.0.0.1:6000");
  auto adapters = AdaptersOf(w);
  const auto good = adapters[0];
  adapters[0].problem = Status(SC::kDeviceNotReady, "It has no address; give it one.");
  w.ClearLog();
  w.Step(0, AdaptersChanged{adapters});
  w.Step(0, AdaptersChanged{adapters});
  EXPECT_EQ(Notes(w, "adapter."), std::vector<std::string>{"adapter.problem a0"}) << "once";
  ASSERT_EQ(w.Seen<SendAdapterEvent>().size(), 1u);
  EXPECT_EQ(w.Seen<SendAdapterEvent>()[0].what, AdapterEvent::What::kRemoved);
  EXPECT_EQ(w.Try(c, GetLocalAddressOp{k}), SC::kDeviceRemoved);
  EXPECT_EQ(w.Call(c, OpenAdapterOp{"a0", {}}).status.message(), "It has no address; give it one.");
  EXPECT_EQ(w.Call(c, OpenAdapterOp{}).reply.adapters[0].name, "a1") << "another one serves";
  const Complete list = w.Call(c, ListAdaptersOp{});
  ASSERT_EQ(list.reply.adapters.size(), 1u);
  EXPECT_EQ(list.reply.adapters[0].name, "a1");
  EXPECT_EQ(w.broker().CheckReserve(Ip("10.0.0.1:7000")).code(), SC::kInvalidAddress);
  adapters[0] = good;
  w.Step(0, AdaptersChanged{adapters});
  EXPECT_EQ(Notes(w, "adapter.").back(), "adapter.ready a0");
  EXPECT_EQ(w.Call(c, OpenAdapterOp{}).reply.adapters[0].name, "a0");
}

TEST(AdapterProblem, NewAdapterIsAnnouncedWhenItCanBeUsed) {
  World w;
  auto adapters = AdaptersOf(w);
  adapters.push_back(TestAdapter("a2", {"10.2.0.1"}));
  adapters.push_back(TestAdapter("a3", {}));
  adapters[3].problem = Status(SC::kDeviceNotReady, "It has no address.");
  w.ClearLog();
  w.Step(0, AdaptersChanged{adapters});
  EXPECT_EQ(Notes(w, "adapter."), (std::vector<std::string>{"adapter.added a2", "adapter.problem a3"}));
}

TEST(AdapterProblem, NoHostPortIsHeldMeanwhile) {
  World w;
  w.Listener(w.Open(0, 1000, 4242), "10.0.0.1:7000");
  w.Restart(0, w.Leases(), std::chrono::seconds(10));
  auto adapters = AdaptersOf(w);
  adapters[0].reserve_ports = adapters[0].keep_ports = true;
  adapters[0].problem = Status(SC::kDeviceNotReady, "It has no address.");
  w.Step(0, AdaptersChanged{adapters});
  EXPECT_TRUE(w.HostPorts().empty());
  adapters[0].problem = {};
  w.Step(0, AdaptersChanged{adapters});
  EXPECT_EQ(w.HostPorts(), std::vector<std::string>{"+10.0.0.1:7000"});
}

TEST(SetAdapter, UnknownOneOrTheSameStateIsNoEvent) {
  World w;
  w.Open();
  w.ClearLog();
  w.Step(0, SetAdapter{"a9", false});
  w.Step(0, SetAdapter{"a0", true});
  EXPECT_TRUE(w.Log(0).empty());
}

// Reason 6 of behaviour b.6. Only the connection that asked for events gets one.
TEST(SetAdapter, DisabledAdapterTellsTheApplicationsOfItsConnections) {
  World w(2);
  const auto a = w.Open(0), p = w.Open(1);
  const Handle l = w.Listener(p, "10.0.1.1:7000"), c = w.Bound(a, "10.0.0.1:0"),
               other = w.Bound(a, "10.0.0.1:0");
  for (const Handle k : {c, other}) {
    w.Connect(a, k, w.Qp(a), "10.0.1.1:7000");
    w.Submit(p, AcceptOp{w.Incoming(p, l), w.Qp(p), {1, 1}, {}, 0, false});
    ASSERT_EQ(w.Try(a, CompleteConnectOp{k, k == c}), SC::kSuccess);
  }
  w.ClearLog();
  w.Step(0, SetAdapter{"a0", false});
  ASSERT_EQ(w.Seen<SendDisconnectEvent>(0).size(), 1u) << "the other connection asked for none";
  EXPECT_EQ(w.Seen<SendDisconnectEvent>(0)[0].connector, c);
  EXPECT_EQ(w.Seen<SendDisconnectEvent>(0)[0].reason, DisconnectReason::kAdapterDisabled);
  EXPECT_EQ(w.broker(0).counters().connection_error, 2u);
}

TEST(SetAdapter, ConnectionThatDisconnectsIsNoError) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  const OpId disconnect = w.Submit(up.a, DisconnectOp{up.ac});
  w.Step(0, SetAdapter{"a0", false});
  EXPECT_EQ(w.Code(up.a, disconnect), SC::kDeviceRemoved);
  EXPECT_EQ(w.broker(0).counters().connection_error, 0u);
  EXPECT_EQ(w.broker(0).counters().active_connection, 0u);
}

// The broker tells nothing to an ended session or to a client that closed its adapter.
TEST(SetAdapter, ConnectionThatThePeerClosedIsDroppedToo) {
  World w(2);
  const World::Up up = w.Pair(Stage::kPeerClosed);
  ASSERT_EQ(w.State(up.p, up.pc), ConnectorState::kPeerClosed);
  w.Step(1, SetAdapter{"a0", false});
  ASSERT_EQ(w.Seen<SendTransportCommand>(1).size(), 1u) << "receives that still wait end with the adapter";
  EXPECT_EQ(w.Seen<SendTransportCommand>(1)[0].what, SendTransportCommand::What::kDrop);
  EXPECT_EQ(w.Seen<SendTransportCommand>(1)[0].reason, DisconnectReason::kAdapterDisabled);
}

TEST(SetAdapter, OnlyLiveHandlesAreTold) {
  World w(2);
  w.reclaim_at_once = false;
  w.pair_has_older_connectors = true;
  const World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, ReclaimSome{1});
  const auto closed = w.Open(0), open = w.Open(0);
  w.Connector(closed);
  w.Submit(closed, CloseOp{closed.adapter});
  w.Step(0, SessionClosed{up.a.session});
  w.ClearLog();
  w.Step(0, SetAdapter{"a0", false});
  ASSERT_EQ(w.Seen<SendAdapterEvent>(0).size(), 1u);
  EXPECT_EQ(w.Seen<SendAdapterEvent>(0)[0].adapter, open.adapter);
  EXPECT_TRUE(w.Seen<SendDisconnectEvent>(0).empty());
  w.Step(0, SetAdapter{"a0", true});
  w.Step(0, SetAdapter{"a0", false});
  while (w.broker(0).reclaiming()) w.Step(0, ReclaimSome{});
}

// A request that waits for its application, and the connector of an ended session that the wire has
// forgotten.
TEST(SetAdapter, EachIncomingRequestIsRejectedOnce) {
  World w(2);
  w.reclaim_at_once = false;
  w.pair_has_older_connectors = true;
  const World::Up up = w.Pair(Stage::kIncoming);
  w.Step(1, ReclaimSome{1});
  const CmId id{provider::kInboundBit | 1};
  w.Step(1, SessionClosed{up.p.session});
  w.Step(1, CmLost{id, {SC::kConnectionAborted}, {}});
  w.ClearLog();
  w.Step(1, SetAdapter{"a0", false});
  EXPECT_TRUE(w.Seen<CmReject>(1).empty()) << "the peer is gone";
  while (w.broker(1).reclaiming()) w.Step(1, ReclaimSome{});
  EXPECT_TRUE(w.broker(1).Connections().empty());
}

TEST(SetAdapter, EndpointEndsWithItsLastConnection) {
  World w(2);
  const auto a = w.Open(0), p = w.Open(1);
  const Handle l = w.Listener(p, "10.0.1.1:7000"), endpoint = w.Endpoint(a, "10.0.0.1:6000");
  const Handle k = w.Connector(a);
  ConnectOp op{k, w.Qp(a), Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}};
  op.shared_endpoint = endpoint;
  w.Submit(a, op);
  w.Submit(p, AcceptOp{w.Incoming(p, l), w.Qp(p), {1, 1}, {}, 0, false});
  ASSERT_EQ(w.Try(a, CompleteConnectOp{k, false}), SC::kSuccess);
  w.clients_answer = false;
  const OpId last = w.Submit(a, CloseOp{endpoint}), first = w.Submit(a, CloseOp{k});
  ASSERT_EQ(w.Code(a, first), SC::kPending);
  w.Step(0, SetAdapter{"a0", false});
  EXPECT_EQ(w.Code(a, first), SC::kSuccess);
  EXPECT_EQ(w.Code(a, last), SC::kSuccess);
  EXPECT_TRUE(w.broker(0).Endpoints().empty());
}

TEST(Kill, ConnectorThatIsNotOnTheWireStaysUnchanged) {
  World w(2);
  const World::Up up = w.Pair(Stage::kPeerClosed);
  const Handle idle = w.Bound(up.p, "10.0.1.1:6000");
  w.Step(1, KillConnection{Handle{4242}});
  w.Step(1, KillConnection{up.pc});
  w.Step(1, KillConnection{idle});
  w.Step(1, KillConnection{up.listener});
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.State(up.p, idle), ConnectorState::kBound);
  w.ClearLog();
  w.Step(1, KillSession{SessionId{4242}});
  EXPECT_TRUE(w.Log(1).empty());
}

TEST(Kill, OfAConnectionThatEndsOrComesBackChangesNothing) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  const OpId close = w.Submit(up.a, CloseOp{up.ac});
  w.ClearLog();
  w.Step(0, KillConnection{up.ac});
  EXPECT_TRUE(w.Log(0).empty()) << "closing";
  EXPECT_EQ(w.Code(up.a, close), SC::kPending);
  World v;
  v.KeepPorts();
  const auto c = v.Open();
  v.answer_reserves = false;
  const OpId back = v.Submit(c, v.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false));
  v.ClearLog();
  v.Step(0, KillConnection{v.broker().Connections()[0].id});
  EXPECT_TRUE(v.Log(0).empty()) << "coming back";
  EXPECT_EQ(v.Code(c, back), SC::kPending);
}

TEST(Kill, OfAnEndedSessionChangesNothing) {
  World w(2);
  w.reclaim_at_once = false;
  w.pair_has_older_connectors = true;
  const World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, ReclaimSome{1});
  w.Step(0, SessionClosed{up.a.session});
  w.ClearLog();
  w.Step(0, KillConnection{up.ac});
  w.Step(0, KillSession{up.a.session});
  w.Step(0, SessionClosed{up.a.session});
  EXPECT_TRUE(w.Log(0).empty());
  while (w.broker(0).reclaiming()) w.Step(0, ReclaimSome{});
  w.Step(0, ReclaimSome{});  // There is nothing to reclaim.
  EXPECT_FALSE(w.broker(0).HasSession(up.a.session));
}

TEST(Kill, EndsEachOperationThatIsPending) {
  for (const bool passive : {false, true}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kReplied);
    w.wire_is_cut = true;
    const OpId complete = w.Submit(up.a, CompleteConnectOp{up.ac, false});
    w.Step(passive ? 1 : 0, KillConnection{passive ? up.pc : up.ac});
    EXPECT_EQ(w.State(passive ? up.p : up.a, passive ? up.pc : up.ac), ConnectorState::kDead);
    EXPECT_EQ(w.Code(up.a, complete), passive ? SC::kPending : SC::kCanceled);
    if (passive) {
      EXPECT_EQ(w.Seen<Complete>(1).back().status.code(), SC::kCanceled);
    }
  }
}

TEST(PauseListener, NeedsAListenerThatListens) {
  World w;
  const auto c = w.Open();
  const Handle l = w.Listener(c, "10.0.0.1:7000");
  const Handle bound = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  ASSERT_EQ(w.Try(c, BindOp{bound, Ip("10.0.0.1:7001")}), SC::kSuccess);
  w.ClearLog();
  w.Step(0, PauseListener{Handle{4242}, true});
  w.Step(0, PauseListener{bound, true});
  EXPECT_TRUE(w.Log(0).empty());
  w.Step(0, PauseListener{l, true});
  EXPECT_EQ(w.broker().Listeners()[0].state, "paused");
  w.Step(0, PauseListener{l, false});
  EXPECT_EQ(w.broker().Listeners()[0].state, "listening");
  ASSERT_EQ(w.Seen<Notice>().size(), 2u);
  EXPECT_EQ(w.Seen<Notice>()[0].type, "listener.paused");
  EXPECT_EQ(w.Seen<Notice>()[1].type, "listener.resumed");
}

TEST(Drain, SecondRequestIsReportedOnce) {
  World w;
  w.Step(0, SetDraining{true});
  w.Step(0, SetDraining{true});
  EXPECT_EQ(w.Seen<Notice>().size(), 1u);
}

TEST(SettingsOfTheBroker, InvalidEphemeralRangeIsTheDefault) {
  for (const auto& [first, last] :
       std::vector<std::pair<std::uint16_t, std::uint16_t>>{{0, 10}, {50001, 50000}}) {
    Settings settings;
    settings.ephemeral_first = first;
    settings.ephemeral_last = last;
    World w(1, settings);
    const auto c = w.Open();
    EXPECT_GE(w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port(), 49152);
  }
}

TEST(SettingsOfTheBroker, PortsThatAreHeldAreCountedInTheNewRange) {
  World w;
  const auto c = w.Open();
  w.Bound(c, "10.0.0.1:50000");
  w.Bound(c, "10.0.0.1:60000");
  EXPECT_EQ(w.broker().Adapters()[0].ephemeral_used, 2u);
  Settings settings;
  settings.ephemeral_first = settings.ephemeral_last = 60000;
  w.Step(0, SettingsChanged{settings, {}});
  EXPECT_EQ(w.broker().Adapters()[0].ephemeral_used, 1u);
  EXPECT_EQ(w.Try(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}), SC::kTooManyAddresses);
}

TEST(Rows, NameTheStateOfEachObject) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const Handle unbound = w.Call(up.a, CreateListenerOp{up.a.adapter}).reply.handle;
  const Handle bound = w.Call(up.a, CreateListenerOp{up.a.adapter}).reply.handle;
  ASSERT_EQ(w.Try(up.a, BindOp{bound, Ip("10.0.0.1:7001")}), SC::kSuccess);
  std::map<Handle, std::string> state;
  for (const ListenerRow& row : w.broker(0).Listeners()) state[row.id] = row.state;
  EXPECT_EQ(state[unbound], "unbound");
  EXPECT_EQ(state[bound], "bound");
  w.Submit(up.p, CloseOp{up.listener});
  EXPECT_EQ(w.broker(1).Listeners()[0].state, "closing");
  EXPECT_EQ(w.broker(1).Ports()[0].state, "lingering");
  const Handle spare = w.Qp(up.a), busy = w.Qp(up.a);
  w.wire_is_cut = true;
  w.Connect(up.a, w.Bound(up.a, "10.0.0.1:6001"), busy, "10.0.1.1:7000");
  const auto qp_state = [&](Handle qp) {
    for (const QueuePairRow& row : w.broker(0).QueuePairs()) {
      if (row.id == qp) return std::string(row.state);
    }
    return std::string();
  };
  EXPECT_EQ(qp_state(up.aq), "connected");
  EXPECT_EQ(qp_state(spare), "unconnected");
  EXPECT_EQ(qp_state(busy), "connecting");
  w.wire_is_cut = false;
  ASSERT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kSuccess);
  EXPECT_EQ(qp_state(up.aq), "disconnected");
  EXPECT_EQ(w.broker(0).Ports()[0].state, "lingering") << "until Close";
}

TEST(Rows, CountConnectionsAndNameTheirQueuePairs) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const Handle idle = w.Connector(up.a);
  EXPECT_EQ(w.broker(0).Adapters()[0].connections, 1u);
  EXPECT_EQ(w.broker(0).Adapters()[1].connections, 0u);
  EXPECT_EQ(w.broker(1).Listeners()[0].accepted, 1u);
  for (const ConnectionRow& row : w.broker(0).Connections()) EXPECT_EQ(row.has_queue_pair, row.id != idle);
  ASSERT_EQ(w.Try(up.p, DisconnectOp{up.pc}), SC::kSuccess);
  EXPECT_EQ(w.broker(0).Adapters()[0].connections, 0u);
}

// A handle's place is used again, so that the order of places is not that of creation.
TEST(Rows, AreInOrderOfCreation) {
  World w;
  const auto c = w.Open();
  const Handle first = w.Connector(c), second = w.Connector(c), third = w.Connector(c);
  w.Close(c, first);
  const Handle fourth = w.Connector(c);
  std::vector<Handle> order;
  for (const ConnectionRow& row : w.broker().Connections()) order.push_back(row.id);
  EXPECT_EQ(order, (std::vector{second, third, fourth}));
}

TEST(Rows, PortOfAListenerWithADeadConnectionIsHeld) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  w.Bound(up.a, "10.0.0.1:6100");
  for (const PortRow& row : w.broker(0).Ports()) EXPECT_EQ(row.state, "held");
  ASSERT_EQ(w.Try(up.p, DisconnectOp{up.pc}), SC::kSuccess);
  ASSERT_EQ(w.broker(1).Ports().size(), 1u);
  EXPECT_EQ(w.broker(1).Ports()[0].state, "held") << "its listener listens";
}

TEST(SettingsOfTheBroker, SameRangeKeepsTheOrderOfPorts) {
  World w;
  const auto c = w.Open();
  const auto bind = [&] { return w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port(); };
  const int first = bind();
  w.Step(0, SettingsChanged{Settings(), {}});
  EXPECT_EQ(bind(), first == 65535 ? 49152 : first + 1);
}

TEST(Rows, AnswersAboutSessionsAndUsers) {
  Rule rule;
  rule.name = "only";
  World w(1, {}, Policy({rule}));
  ASSERT_EQ(w.broker().policy().rules().size(), 1u);
  EXPECT_EQ(w.broker().policy().rules()[0].name, "only");
  const auto c = w.Open(0, 77);
  w.Qp(c);
  EXPECT_EQ(w.broker().NextCounterSlot(c.session), 1u);
  EXPECT_EQ(w.broker().NextCounterSlot(SessionId{4242}), 0u);
  ASSERT_TRUE(w.broker().OwnerOf(c.session).has_value());
  EXPECT_EQ(w.broker().OwnerOf(c.session)->uid, 77u);
  EXPECT_FALSE(w.broker().OwnerOf(SessionId{4242}).has_value());
  EXPECT_EQ(w.broker().UsageOf(77)[static_cast<std::size_t>(Resource::kQueuePairs)], 1u);
  EXPECT_EQ(w.broker().UsageOf(78), Quota::Usage{});
  Identity idle;
  idle.uid = 78;
  w.Step(0, SessionOpened{SessionId{4242}, idle});
  w.Step(0, SessionOpened{SessionId{4242}, Identity{}});
  ASSERT_EQ(w.broker().Sessions().size(), 2u);
  const std::uint64_t operations = w.broker().Sessions()[0].operations;
  w.Qp(c);
  EXPECT_EQ(w.broker().Sessions()[0].operations, operations + 1);
  EXPECT_EQ(w.broker().Sessions()[1].owner.uid, 78u) << "the first one stays";
  EXPECT_EQ(w.broker().Sessions()[1].adapter, "");
}

}  // namespace
}  // namespace nd::core
