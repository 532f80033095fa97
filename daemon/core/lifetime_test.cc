// SPDX-License-Identifier: Apache-2.0
// Disconnecting, cancelling, closing, sessions, administration, reattachment (behaviour d.9 to d.12).
#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

TEST(Disconnect, ND_174_178_180_181_183_193) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const OpId n1 = w.Submit(up.p, NotifyDisconnectOp{up.pc}), n2 = w.Submit(up.p, NotifyDisconnectOp{up.pc});
  const OpId own = w.Submit(up.a, NotifyDisconnectOp{up.ac});
  w.delay_goodbyes = true;
  const OpId d = w.Submit(up.a, DisconnectOp{up.ac});
  EXPECT_EQ(w.Code(up.a, d), SC::kPending);
  EXPECT_EQ(w.Code(up.a, own), SC::kConnectionDisconnected);
  EXPECT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kConnectionInvalid);
  w.ReleaseGoodbyes();
  EXPECT_EQ(w.Code(up.a, d), SC::kSuccess);
  EXPECT_EQ(w.Code(up.p, n1), SC::kSuccess);
  EXPECT_EQ(w.Code(up.p, n2), SC::kSuccess);
  EXPECT_EQ(w.Try(up.p, NotifyDisconnectOp{up.pc}), SC::kSuccess);
  EXPECT_EQ(w.Try(up.p, DisconnectOp{up.pc}), SC::kSuccess);
  EXPECT_TRUE(w.Seen<SendDisconnectEvent>(0).empty());
  EXPECT_EQ(w.broker(0).counters().connection_error, 0u);
  EXPECT_EQ(w.Seen<CmAbort>(0).size(), 1u);  // The id is released once.
}

TEST(Disconnect, ClientThatHasBegunTheGoodbyeGetsNoOrder) {
  for (const bool begun : {false, true}) {
    SCOPED_TRACE(begun);
    World w(2);
    auto up = w.Pair(Stage::kConnected);
    w.delay_goodbyes = true;
    const OpId d = w.Submit(up.a, DisconnectOp{up.ac, begun});
    EXPECT_EQ(w.Seen<SendTransportCommand>(0).size(), begun ? 0u : 1u);
    EXPECT_EQ(w.Code(up.a, d), SC::kPending);
    w.Submit(up.a, TransportReportOp{up.ac, TransportReportOp::What::kDisconnectDone, {}, {}});
    EXPECT_EQ(w.Code(up.a, d), SC::kSuccess);
  }
}

TEST(Disconnect, ND_184_Crossing) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  w.delay_goodbyes = true;
  const OpId one = w.Submit(up.a, DisconnectOp{up.ac}), two = w.Submit(up.p, DisconnectOp{up.pc});
  w.ReleaseGoodbyes();
  EXPECT_EQ(w.Code(up.a, one), SC::kSuccess);
  EXPECT_EQ(w.Code(up.p, two), SC::kSuccess);
}

TEST(Disconnect, ND_185_UnansweredGoodbye) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  const OpId d = w.Submit(up.a, DisconnectOp{up.ac});
  w.Advance(std::chrono::milliseconds(6999));
  EXPECT_EQ(w.Code(up.a, d), SC::kPending);
  w.Advance(std::chrono::milliseconds(2));
  EXPECT_EQ(w.Code(up.a, d), SC::kIoTimeout);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
  EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
  w.Bound(up.a, "10.0.0.1:6000");
}

TEST(Disconnect, ND_186_187_ImpliedByClose) {
  for (const bool queue_pair : {false, true}) {
    World w(2);
    auto up = w.Pair(Stage::kConnected);
    const OpId n = w.Submit(up.p, NotifyDisconnectOp{up.pc});
    EXPECT_EQ(w.Close(up.a, queue_pair ? up.aq : up.ac), SC::kSuccess);
    EXPECT_EQ(w.Code(up.p, n), SC::kSuccess);
  }
}

TEST(Disconnect, ND_186_QueuePairReleasedDuringDisconnect) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  const OpId d = w.Submit(up.a, DisconnectOp{up.ac});
  ASSERT_EQ(w.Code(up.a, d), SC::kPending);
  w.Submit(up.a, CloseOp{up.aq, false});
  EXPECT_EQ(w.Code(up.a, d), SC::kCanceled);
}

TEST(Disconnect, ND_194_EventWithReason) {
  World w(2);
  const auto a = w.Open(0), p = w.Open(1);
  const Handle l = w.Listener(p, "10.0.1.1:7000"), c = w.Bound(a, "10.0.0.1:0");
  w.Connect(a, c, w.Qp(a), "10.0.1.1:7000");
  w.Submit(p, AcceptOp{w.Incoming(p, l), w.Qp(p), {1, 1}, {}, 0, true});
  w.Submit(a, CompleteConnectOp{c, true});
  w.Die(a);
  ASSERT_EQ(w.Seen<SendDisconnectEvent>(1).size(), 1u);
  EXPECT_EQ(w.Seen<SendDisconnectEvent>(1)[0].reason, DisconnectReason::kPeerProcessDied);
  EXPECT_EQ(w.broker(1).counters().connection_error, 1u);
}

TEST(Disconnect, ND_189_ReconnectLoop) {
  World w(2);
  w.check_always = false;
  const auto a = w.Open(0), p = w.Open(1);
  const Handle l = w.Listener(p, "10.0.1.1:7000");
  for (int i = 0; i < 1000; ++i) {
    const Handle c = w.Bound(a, "10.0.0.1:6000"), aq = w.Qp(a), pq = w.Qp(p);
    w.Connect(a, c, aq, "10.0.1.1:7000");
    const Handle k = w.Incoming(p, l);
    w.Submit(p, AcceptOp{k, pq, {1, 1}, {}, 0, false});
    ASSERT_EQ(w.Try(a, CompleteConnectOp{c, false}), SC::kSuccess);
    ASSERT_EQ(w.Try(a, DisconnectOp{c}), SC::kSuccess);
    ASSERT_EQ(w.Close(a, c), SC::kSuccess);
    ASSERT_EQ(w.Close(a, aq), SC::kSuccess);
    ASSERT_EQ(w.Close(p, k), SC::kSuccess);
    ASSERT_EQ(w.Close(p, pq), SC::kSuccess);
  }
  EXPECT_EQ(w.broker(0).CheckInvariants() + w.broker(1).CheckInvariants(), "");
}

TEST(Disconnect, ProviderDisconnectsItself) {
  World w(2);
  auto adapters = w.broker(0).Adapters();
  adapters[0].description.client_disconnects = false;
  w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
  auto up = w.Pair(Stage::kConnected);
  const CmId id = w.broker(0).Connections()[0].cm_id;
  const OpId d = w.Submit(up.a, DisconnectOp{up.ac});
  ASSERT_EQ(w.Seen<CmDisconnect>(0).size(), 1u);
  EXPECT_TRUE(w.Seen<SendTransportCommand>(0).empty());
  w.Step(0, CmDisconnected{id, {StatusCode::kIoTimeout}});
  EXPECT_EQ(w.Code(up.a, d), SC::kIoTimeout);
}

TEST(Disconnect, BrokerTellsThePeerOfAFailedQueuePair) {
  World w(2);
  auto adapters = w.broker(0).Adapters();
  adapters[0].description.client_disconnects = false;
  w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
  auto up = w.Pair(Stage::kConnected);
  w.Submit(up.a,
           TransportReportOp{up.ac, TransportReportOp::What::kPeerClosed, DisconnectReason::kUnknown, {}});
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.Seen<CmDisconnect>(0).size(), 1u);
  EXPECT_EQ(w.Code(up.a, w.Submit(up.a, DisconnectOp{up.ac})), SC::kSuccess);
}

TEST(Disconnect, ND_196_GoodbyeOvertakesConfirmation) {
  World w(2);
  auto up = w.Pair(Stage::kIncoming);
  const OpId accept = w.Submit(up.p, AcceptOp{up.pc, up.pq, {1, 1}, {}, 0, false});
  w.Step(1, CmPeerClosed{w.broker(1).Connections()[0].cm_id, DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.Code(up.p, accept), SC::kSuccess);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.Try(up.p, NotifyDisconnectOp{up.pc}), SC::kSuccess);
}

TEST(Cancel, ND_179_198_201_202) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  std::vector<OpId> n;
  for (int i = 0; i < 3; ++i) n.push_back(w.Submit(up.a, NotifyDisconnectOp{up.ac}));
  const OpId cancel = w.Submit(up.a, CancelOp{up.ac});
  const std::vector<OpId> order = w.completion_order(up.a);
  const std::vector<OpId> tail(order.end() - 4, order.end());
  EXPECT_EQ(tail, (std::vector<OpId>{n[0], n[1], n[2], cancel}));
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnected);
  EXPECT_EQ(w.Try(up.a, NotifyDisconnectOp{up.ac}), SC::kPending);
  w.clients_answer = false;
  const OpId d = w.Submit(up.a, DisconnectOp{up.ac});
  EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kSuccess);
  EXPECT_EQ(w.Code(up.a, d), SC::kCanceled);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
  EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kSuccess);
  EXPECT_FALSE(w.broker(0).NextDeadline().has_value());
}

TEST(Lifetime, ND_210_NdkQueuePairWaitsForItsConnector) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const OpId close = w.Submit(up.a, CloseOp{up.aq, true});
  EXPECT_EQ(w.Code(up.a, close), SC::kPending);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnected);
  const OpId last = w.Submit(up.a, CloseOp{up.ac, true});
  EXPECT_EQ(w.Code(up.a, close), SC::kSuccess);
  const std::vector<OpId> order = w.completion_order(up.a);
  EXPECT_EQ(order.back(), close);
  EXPECT_EQ(order[order.size() - 2], last);
}

TEST(Lifetime, ND_211_213_AdapterLast) {
  World w(2);
  auto up = w.Pair(Stage::kConnecting);
  const OpId adapter = w.Submit(up.a, CloseOp{up.a.adapter, false});
  EXPECT_EQ(w.Code(up.a, adapter), SC::kPending);
  EXPECT_EQ(w.Try(up.a, CreateConnectorOp{up.a.adapter}), SC::kInvalidHandle);
  EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
  EXPECT_EQ(w.Code(up.a, adapter), SC::kPending);
  EXPECT_EQ(w.Close(up.a, up.aq), SC::kSuccess);
  EXPECT_EQ(w.Code(up.a, adapter), SC::kSuccess);
}

TEST(Lifetime, ND_218_ManyCyclesAndCounterSlots) {
  World w;
  w.check_always = false;
  const auto c = w.Open();
  for (int i = 0; i < 10000; ++i) {
    const Complete q = w.Call(c, CreateQueuePairOp{c.adapter, 1, 1, 0});
    ASSERT_EQ(q.reply.counter_slot, 0u);
    w.Close(c, q.reply.handle);
    w.Close(c, w.Connector(c));
  }
  const Handle first = w.Qp(c);
  w.Qp(c);
  w.Close(c, first);
  EXPECT_EQ(w.Call(c, CreateQueuePairOp{c.adapter, 1, 1, 0}).reply.counter_slot, 0u);
  EXPECT_EQ(w.Try(c, CreateQueuePairOp{c.adapter, 1025, 1, 0}), SC::kInvalidParameter5);
  EXPECT_EQ(w.Try(c, CreateQueuePairOp{c.adapter, 1024, 1025, 0}), SC::kInvalidParameter6);
}

TEST(Sessions, ND_207_OperationIds) {
  World w;
  const auto c = w.Open();
  const OpId id = w.Submit(c, CreateConnectorOp{c.adapter});
  const std::size_t before = w.Seen<Complete>().size();
  w.Resubmit(c, id, CreateConnectorOp{c.adapter});
  ASSERT_EQ(w.Seen<Complete>().size(), before + 1);
  EXPECT_EQ(w.Seen<Complete>().back().reply.handle, w.Result(c, id).reply.handle);
  EXPECT_EQ(w.broker().Sessions()[0].connectors, 1u);
  const Handle l = w.Listener(c, "10.0.0.1:7000");
  const OpId get = w.Submit(c, GetConnectionRequestOp{l, w.Result(c, id).reply.handle});
  w.Resubmit(c, get, GetConnectionRequestOp{l, w.Result(c, id).reply.handle});
  EXPECT_EQ(w.Code(c, get), SC::kPending);
  EXPECT_EQ(w.broker().OldestPending(), w.now());
  w.Resubmit(c, 0, ListAdaptersOp{});
  ASSERT_EQ(w.Seen<EndSession>().size(), 1u);
  EXPECT_TRUE(w.broker().Sessions().empty());
}

TEST(Sessions, AdapterOperations) {
  World w;
  const auto c = w.Open();
  EXPECT_EQ(w.Call(c, ListAdaptersOp{}).reply.adapters.size(), 2u);
  EXPECT_EQ(w.Try(c, OpenAdapterOp{"nope", {}}), SC::kInvalidParameter);
  EXPECT_EQ(w.Call(c, OpenAdapterOp{"", Ip("10.1.0.1")}).reply.adapters[0].name, "a1");
  EXPECT_EQ(w.Call(c, OpenAdapterOp{}).reply.adapters[0].name, "a0");
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, Ip("10.0.0.2")}), SC::kSuccess);
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, Ip("10.1.0.1")}), SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, Address::FromParts(Address::Family::kIpv4, "a", 0)}),
            SC::kInvalidParameter2);
  EXPECT_EQ(w.Call(c, ResolveAddressOp{c.adapter, Ip("10.0.5.5:9")}).reply.address, Ip("10.0.0.1"));
  EXPECT_EQ(w.Try(c, ResolveAddressOp{c.adapter, Address()}), SC::kInvalidAddress);
}

TEST(Admin, ND_078_158_224_DisableAdapter) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const Handle c2 = w.Bound(up.a, "10.0.0.1:6001"), q2 = w.Qp(up.a);
  const OpId connect = w.Connect(up.a, c2, q2, "10.0.1.1:7000");
  const OpId notify = w.Submit(up.a, NotifyDisconnectOp{up.ac});
  w.Step(0, SetAdapter{"a0", false});
  EXPECT_EQ(w.Code(up.a, connect), SC::kDeviceRemoved);
  EXPECT_EQ(w.Code(up.a, notify), SC::kDeviceRemoved);
  ASSERT_EQ(w.Seen<SendTransportCommand>(0).size(), 1u);
  EXPECT_EQ(w.Seen<SendTransportCommand>(0)[0].what, SendTransportCommand::What::kDrop);
  EXPECT_EQ(w.Seen<SendTransportCommand>(0)[0].reason, DisconnectReason::kAdapterDisabled);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kDeviceRemoved);
  EXPECT_EQ(w.Try(up.a, GetLocalAddressOp{up.ac}), SC::kDeviceRemoved);
  EXPECT_EQ(w.Try(up.a, CreateConnectorOp{up.a.adapter}), SC::kDeviceRemoved);
  const auto late = w.Open(0);
  EXPECT_FALSE(late.adapter);
  EXPECT_EQ(w.Try(late, OpenAdapterOp{"a0", {}}), SC::kDeviceNotReady);
  const OpId refused = w.Connect(up.p, w.Bound(up.p, "10.0.1.1:0"), w.Qp(up.p), "10.0.0.1:7000");
  EXPECT_EQ(w.Result(up.p, refused).status.detail(), Detail::kAdapterDisabled);
  EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
  w.Step(0, SetAdapter{"a0", true});
  EXPECT_EQ(w.Seen<SendAdapterEvent>(0).back().what, SendAdapterEvent::What::kEnabled);
  EXPECT_EQ(w.Try(late, OpenAdapterOp{"a0", {}}), SC::kSuccess);
  w.Bound(up.a, "10.0.0.1:6000");
}

TEST(Admin, RemovedAdapterIsGoneForItsHandles) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const auto adapters = w.broker(1).Adapters();
  w.Step(1, AdaptersChanged{{adapters[1].description}});
  EXPECT_EQ(w.Seen<SendAdapterEvent>(1)[0].what, SendAdapterEvent::What::kRemoved);
  EXPECT_EQ(w.broker(1).Adapters().size(), 1u);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
  w.Step(1, AdaptersChanged{{adapters[0].description, adapters[1].description}});
  EXPECT_EQ(w.Try(up.p, CreateConnectorOp{up.p.adapter}), SC::kDeviceRemoved);
  w.Listener(w.Open(1), "10.0.1.1:7000");
  EXPECT_EQ(w.Close(up.p, up.pc), SC::kSuccess);
  EXPECT_EQ(w.Close(up.p, up.listener), SC::kSuccess);
}

TEST(Admin, KillConnectionAndSession) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const OpId notify = w.Submit(up.a, NotifyDisconnectOp{up.ac});
  w.Step(0, KillConnection{up.ac});
  EXPECT_EQ(w.Code(up.a, notify), SC::kSuccess);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kPeerClosed);
  w.Step(0, KillSession{up.a.session});
  EXPECT_TRUE(w.broker(0).Sessions().empty());
}

TEST(Reattach, ComesBackWithPortAndTuple) {
  World w;
  const auto c = w.Open(), other = w.Open(0, 1001);
  const auto op = [&](const World::Client& who, const std::string& local, const std::string& remote,
                      bool passive) {
    return w.Returning(who, local, remote, passive, {99, 1});
  };
  const Complete first = w.Call(c, op(c, "10.0.0.1:7000", "10.0.5.1:50000", true));
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(w.State(c, first.reply.handle), ConnectorState::kConnected);
  EXPECT_EQ(w.Call(c, GetReadLimitsOp{first.reply.handle}).reply.limits, (ReadLimits{16, 1}));
  EXPECT_EQ(w.Try(c, op(c, "10.0.0.1:7000", "10.0.5.1:50001", true)), SC::kSuccess);
  EXPECT_EQ(w.Try(c, op(c, "10.0.0.1:7000", "10.0.5.1:50001", true)), SC::kAddressAlreadyExists);
  EXPECT_EQ(w.Try(other, op(other, "10.0.0.1:7000", "10.0.5.1:50002", true)), SC::kSharingViolation);
  w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(w.Try(c, op(c, "10.0.0.1:7000", "10.0.5.1:50003", true)), SC::kSuccess);
  EXPECT_EQ(w.Try(c, op(c, "10.0.0.1:0", "10.0.5.1:50003", true)), SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, DisconnectOp{first.reply.handle}), SC::kPending);
  EXPECT_EQ(w.Try(c, TransportReportOp{first.reply.handle, TransportReportOp::What::kDisconnectDone, {}, {}}),
            SC::kSuccess);
  EXPECT_EQ(w.State(c, first.reply.handle), ConnectorState::kDead);
  w.Die(c);
  EXPECT_TRUE(w.broker().Ports().empty());
}

// With same-owner sharing a connection may return to the port of a live listener; the port remains with the
// listener.
TEST(Reattach, PortOfALiveListenerStaysWithTheListener) {
  Settings settings;
  settings.allow_same_owner_bind_sharing = true;
  World w(1, settings);
  const World::Client c = w.Open();
  w.Listener(c, "10.0.0.1:7000");
  const ReattachOp back = w.Returning(c, "10.0.0.1:7000", "10.0.5.1:6000", false);
  ASSERT_EQ(w.Try(c, back), SC::kSuccess);
  const Handle second = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  EXPECT_EQ(w.Try(c, BindOp{second, Ip("10.0.0.1:7000")}), SC::kSharingViolation);
}

// Queued connects of an ended session are not sent.
TEST(Reclaim, QueuedConnectsOfAnEndedClientAreNotSent) {
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  for (const bool dies : {true, false}) {
    World w(2, settings);
    w.wire_is_cut = true;
    const World::Client c = w.Open(0);
    for (int i = 0; i < 3; ++i) w.Connect(c, w.Bound(c, "10.0.0.1:0"), w.Qp(c), "10.0.1.1:7000");
    ASSERT_EQ(w.Seen<CmConnect>(0).size(), 1u);
    if (dies) {
      w.Die(c);
    } else {
      w.Step(0, SetAdapter{"a0", false});
    }
    EXPECT_EQ(w.Seen<CmConnect>(0).size(), 1u);
    EXPECT_EQ(w.Seen<CmAbort>(0).size(), 1u);
  }
}

// The journal names adapters, so leases of a vanished adapter must not apply to its successor.
TEST(Lease, EndsWithItsAdapter) {
  World w;
  const auto a0 = TestAdapter("a0", {"10.0.0.1"});
  const World::Client c = w.Open();
  const Handle old = w.Listener(c, "10.0.0.1:7000");
  w.Step(0, AdaptersChanged{{}});
  EXPECT_EQ(w.Seen<LeaseFreed>().size(), 1u);
  w.Step(0, AdaptersChanged{{a0}});
  const World::Client again = w.Open();
  w.Listener(again, "10.0.0.1:7000");
  EXPECT_EQ(w.Seen<LeaseTaken>().size(), 2u);
  w.Close(c, old);
  EXPECT_EQ(w.Seen<LeaseFreed>().size(), 1u);
  w.Die(again);
  EXPECT_EQ(w.Seen<LeaseFreed>().size(), 2u);
}

}  // namespace
}  // namespace nd::core
