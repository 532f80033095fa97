// SPDX-License-Identifier: Apache-2.0
// Connect, Accept, CompleteConnect, Reject (behaviour d.3, d.4, d.5, d.7) through the broker.
#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

ConnectOp Plain(Handle c, Handle q, const std::string& remote) {
  ConnectOp op;
  op.connector = c;
  op.queue_pair = q;
  op.remote = Ip(remote);
  op.limits = {16, 16};
  return op;
}

TEST(Connect, ND_064_065_188_BusyAndSpentQueuePairs) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const Handle c = w.Bound(up.a, "10.0.0.1:6001");
  EXPECT_EQ(w.Try(up.a, Plain(c, up.aq, "10.0.1.1:7000")), SC::kConnectionActive);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnected);
  EXPECT_EQ(w.Try(up.a, Plain(c, w.Qp(up.a), "10.0.1.1:7000")), SC::kInvalidDeviceState);  // ND_075
  EXPECT_EQ(w.Try(up.a, BindOp{w.Connector(up.a), Ip("10.0.0.1:6001")}), SC::kSharingViolation);
  EXPECT_EQ(w.Close(up.a, c), SC::kSuccess);
  w.Bound(up.a, "10.0.0.1:6001");
  EXPECT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kSuccess);
  const Handle d = w.Bound(up.a, "10.0.0.1:6002"), e = w.Bound(up.a, "10.0.0.1:6003");
  EXPECT_EQ(w.Try(up.a, Plain(d, up.aq, "10.0.1.1:7000")), SC::kInvalidDeviceState);
  EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
  EXPECT_EQ(w.Try(up.a, Plain(e, up.aq, "10.0.1.1:7000")), SC::kInvalidDeviceState);
}

TEST(Connect, ND_066_To_074_Arguments) {
  World w(2);
  auto up = w.Pair(Stage::kListening);
  const auto other = w.Open(0);
  World::Client both = up.a;
  both.adapter = w.Call(up.a, OpenAdapterOp{"a1", {}}).reply.handle;
  const auto ask = [&](const ConnectOp& op) { return w.Try(up.a, op); };
  EXPECT_EQ(ask(Plain(up.ac, w.Qp(both), "10.0.1.1:7000")), SC::kInvalidParameter1);
  EXPECT_EQ(ask(Plain(up.ac, w.Qp(other), "10.0.1.1:7000")), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(other, Plain(up.ac, w.Qp(other), "10.0.1.1:7000")), SC::kInvalidHandle);  // ND_220
  ConnectOp op = Plain(up.ac, up.aq, "10.0.1.1:7000");
  op.private_data_length = 1;
  EXPECT_EQ(ask(op), SC::kAccessViolation);
  op.private_data.assign(241, 1);
  op.private_data_length = 241;
  EXPECT_EQ(ask(op), SC::kInvalidBufferSize);
  EXPECT_EQ(ask(Plain(up.ac, up.aq, "[fd00::2]:7000")), SC::kInvalidAddress);
  ConnectOp bad = Plain(up.ac, up.aq, "10.0.1.1:7000");
  bad.remote = Address();
  EXPECT_EQ(ask(bad), SC::kInvalidAddress);
  EXPECT_EQ(ask(Plain(up.ac, up.aq, "0.0.0.0:7000")), SC::kNetworkUnreachable);
  EXPECT_EQ(ask(Plain(up.ac, up.aq, "224.0.0.1:7000")), SC::kNetworkUnreachable);
  EXPECT_EQ(ask(Plain(up.ac, up.aq, "10.0.1.1:0")), SC::kConnectionRefused);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kBound);
  Settings s;
  s.bad_network_name = true;
  w.Step(0, SettingsChanged{s, {}});
  EXPECT_EQ(ask(Plain(up.ac, up.aq, "0.0.0.0:7000")), SC::kBadNetworkName);
  op.private_data.assign(240, 1);
  op.private_data_length = 240;
  EXPECT_EQ(ask(op), SC::kPending);
  ConnectOp mix = Plain(w.Connector(up.a), w.Qp(up.a), "10.0.1.1:7000");
  mix.source = Ip("10.0.0.1:1");
  mix.shared_endpoint = w.Endpoint(up.a, "10.0.0.1:2");
  EXPECT_EQ(ask(mix), SC::kInvalidParameterMix);
}

TEST(Connect, ND_015_NdkSourceNotOnAdapterEndsTheConnector) {
  World w;
  const auto c = w.Open();
  ConnectOp op = Plain(w.Connector(c), w.Qp(c), "10.0.0.2:7000");
  op.source = Ip("9.9.9.9:1");
  EXPECT_EQ(w.Try(c, op), SC::kInvalidAddress);
  EXPECT_EQ(w.State(c, op.connector), ConnectorState::kDead);
}

TEST(Connect, ND_030_FailedNdkConnectFreesItsPort) {
  World w;
  const auto c = w.Open(), other = w.Open();
  ConnectOp op = Plain(w.Connector(c), w.Qp(c), "10.0.0.2:7000");
  op.source = Ip("10.0.0.1:6000");
  w.fail_connects = Status(SC::kConnectionRefused);
  EXPECT_EQ(w.Try(c, op), SC::kConnectionRefused);
  EXPECT_EQ(w.State(c, op.connector), ConnectorState::kUnbound);
  EXPECT_EQ(w.Try(other, BindOp{w.Connector(other), Ip("10.0.0.1:6000")}), SC::kSuccess);
}

TEST(Connect, ND_081_To_087_RetryableFailures) {
  World w(2);
  auto up = w.Pair(Stage::kListening);
  for (const SC code : {SC::kNetworkUnreachable, SC::kHostUnreachable, SC::kIoTimeout, SC::kConnectionRefused,
                        SC::kInsufficientResources, SC::kAddressAlreadyExists}) {
    w.fail_connects = Status(code);
    EXPECT_EQ(w.Try(up.a, Plain(up.ac, up.aq, "10.0.1.1:7000")), code);
    EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kBound);
    EXPECT_EQ(w.Call(up.a, GetLocalAddressOp{up.ac}).reply.address, Ip("10.0.0.1:6000"));
  }
  w.fail_connects.reset();
  EXPECT_EQ(w.broker(0).counters().connect_failure, 6u);  // ND_228
  for (int i = 0; i < 10; ++i) {                          // ND_085, ND_099
    const OpId id = w.Submit(up.a, Plain(up.ac, up.aq, "10.0.1.1:7000"));
    EXPECT_EQ(w.Try(up.a, GetPrivateDataOp{up.ac}), SC::kConnectionInvalid);
    EXPECT_EQ(w.Try(up.p, RejectOp{w.Incoming(up.p, up.listener), Data("no!"), 3}), SC::kSuccess);
    EXPECT_EQ(w.Code(up.a, id), SC::kConnectionRefused);
    EXPECT_EQ(w.Result(up.a, id).status.detail(), Detail::kPeerRejected);
    EXPECT_EQ(w.Call(up.a, GetPrivateDataOp{up.ac}).reply.private_data, Data("no!"));
  }
  w.Submit(up.a, Plain(up.ac, up.aq, "10.0.1.1:7000"));
  w.Submit(up.p, AcceptOp{w.Incoming(up.p, up.listener), up.pq, {1, 1}, Data("yes"), 3, false});
  EXPECT_EQ(w.Call(up.a, GetPrivateDataOp{up.ac}).reply.private_data, Data("yes"));
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kSuccess);
}

TEST(Connect, ND_077_144_146_Withdraw) {
  for (int how = 0; how < 3; ++how) {
    World w(2);
    auto up = w.Pair(Stage::kIncoming);
    if (how == 0) {
      EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kSuccess);
    }
    if (how == 1) {
      EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
    }
    if (how == 2) {
      EXPECT_EQ(w.Close(up.a, up.aq), SC::kSuccess);
    }
    EXPECT_EQ(w.Try(up.p, RejectOp{up.pc, {}, 0}), SC::kConnectionAborted);  // ND_145
    EXPECT_EQ(w.Try(up.p, AcceptOp{up.pc, up.pq, {1, 1}, {}, 0, false}), SC::kConnectionAborted);
    if (how == 0) {  // ND_199: the queue pair is usable with a new connector.
      EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
      EXPECT_EQ(w.Try(up.a, Plain(w.Bound(up.a, "10.0.0.1:6001"), up.aq, "10.0.1.1:7000")), SC::kPending);
    }
  }
}

TEST(Accept, ND_132_133_135_NormalOrder) {
  World w(2);
  auto up = w.Pair(Stage::kReplied);
  w.Advance(std::chrono::hours(1));
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kAccepting);
  const Complete done = w.Call(up.a, CompleteConnectOp{up.ac, false});
  EXPECT_TRUE(done.status.ok());
  EXPECT_NE(done.reply.hand_off, 0u);
  EXPECT_EQ(w.Seen<HandOffTo>(0)[0].hand_off, done.reply.hand_off);
  EXPECT_EQ(w.Seen<HandOffTo>(0)[0].limits, (ReadLimits{16, 16}));
  EXPECT_EQ(w.Seen<HandOffTo>(1)[0].connector, up.pc);
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kConnectionInvalid);
  EXPECT_EQ(w.Call(up.a, GetPeerAddressOp{up.ac}).reply.address,
            w.Call(up.p, GetLocalAddressOp{up.pc}).reply.address);
  EXPECT_EQ(w.Call(up.p, GetPeerAddressOp{up.pc}).reply.address,
            w.Call(up.a, GetLocalAddressOp{up.ac}).reply.address);
  const Counters a = w.broker(0).counters(), p = w.broker(1).counters();
  EXPECT_EQ(a.connect, 1u);
  EXPECT_EQ(p.accept, 1u);
  EXPECT_EQ(a.active_connection + p.active_connection, 2u);
}

TEST(Accept, ND_136_200_PassiveWithdrawsAfterAccept) {
  for (int how = 0; how < 4; ++how) {
    World w(2);
    auto up = w.Pair(Stage::kReplied);
    if (how == 0) {
      EXPECT_EQ(w.Close(up.p, up.pc), SC::kSuccess);
    }
    if (how == 1) {
      EXPECT_EQ(w.Try(up.p, CancelOp{up.pc}), SC::kSuccess);
    }
    if (how == 2) {  // ND_153
      EXPECT_EQ(w.Close(up.p, up.pq), SC::kSuccess);
    }
    if (how == 3) {
      w.Die(up.p);
    }
    EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kConnectionAborted);
    EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kConnectionInvalid);
    EXPECT_EQ(w.Try(up.a, Plain(up.ac, w.Qp(up.a), "10.0.1.1:7000")), SC::kInvalidDeviceState);
  }
}

TEST(Accept, ND_139_147_148_ActiveWithdrawsAfterReply) {
  for (const bool refused : {false, true}) {
    for (int how = 0; how < 3; ++how) {
      Settings s;
      s.accept_refused_on_reject = refused;
      World w(2, s);
      auto up = w.Pair(Stage::kIncoming);
      const OpId accept = w.Submit(up.p, AcceptOp{up.pc, up.pq, {1, 1}, {}, 0, false});
      if (how == 0) {
        EXPECT_EQ(w.Try(up.a, RejectOp{up.ac, Data("bye"), 3}), SC::kSuccess);
      }
      if (how == 1) {
        EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
      }
      if (how == 2) {
        w.Die(up.a);
      }
      EXPECT_EQ(w.Code(up.p, accept), refused ? SC::kConnectionRefused : SC::kConnectionAborted);
      EXPECT_EQ(w.Result(up.p, accept).status.detail(),
                how == 0 ? Detail::kPeerRejected : Detail::kPeerWithdrew);
      if (how == 0) {
        EXPECT_EQ(w.Call(up.p, GetPrivateDataOp{up.pc}).reply.private_data, Data("bye"));
      }
      EXPECT_EQ(w.Try(up.p, AcceptOp{up.pc, up.pq, {1, 1}, {}, 0, false}), SC::kConnectionInvalid);
    }
  }
}

TEST(Accept, ND_108_109_110_141_142_143_151) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  const OpId second = w.Connect(up.a, w.Bound(up.a, "10.0.0.1:6001"), w.Qp(up.a), "10.0.1.1:7000");
  const Handle k = w.Incoming(up.p, up.listener), good = w.Qp(up.p);
  AcceptOp op{k, good, {1, 1}, Bytes(201, 1), 201, false};
  EXPECT_EQ(w.Try(up.p, op), SC::kInvalidBufferSize);
  EXPECT_EQ(w.Try(up.p, RejectOp{k, Bytes(201, 1), 201}), SC::kInvalidBufferSize);
  op.private_data.clear();
  EXPECT_EQ(w.Try(up.p, op), SC::kAccessViolation);
  EXPECT_EQ(w.Try(up.p, RejectOp{k, {}, 1}), SC::kAccessViolation);
  World::Client both = up.p;
  both.adapter = w.Call(up.p, OpenAdapterOp{"a1", {}}).reply.handle;
  EXPECT_EQ(w.Try(up.p, AcceptOp{k, w.Qp(both), {1, 1}, {}, 0, false}), SC::kInvalidParameter1);
  EXPECT_EQ(w.State(up.p, k), ConnectorState::kIncoming);
  EXPECT_EQ(w.Try(up.p, AcceptOp{k, up.pq, {1, 1}, {}, 0, false}), SC::kConnectionActive);
  EXPECT_EQ(w.Code(up.a, second), SC::kConnectionRefused);
  EXPECT_EQ(w.Try(up.p, AcceptOp{k, good, {1, 1}, {}, 0, false}), SC::kConnectionInvalid);
  const OpId third = w.Connect(up.a, w.Bound(up.a, "10.0.0.1:6002"), w.Qp(up.a), "10.0.1.1:7000");
  const Handle k3 = w.Incoming(up.p, up.listener);
  EXPECT_EQ(w.Try(up.p, AcceptOp{k3, good, {1, 1}, Bytes(200, 1), 200, false}), SC::kPending);
  EXPECT_EQ(w.Try(up.p, AcceptOp{k3, good, {1, 1}, {}, 0, false}), SC::kConnectionActive);
  EXPECT_EQ(w.Code(up.a, third), SC::kSuccess);
}

TEST(Accept, EstablishTimeoutOfTheAdministrator) {
  Settings s;
  s.establish_timeout = std::chrono::seconds(10);
  World w(2, s);
  auto up = w.Pair(Stage::kReplied);
  w.Advance(std::chrono::seconds(11));
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kDead);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
  World v(2, s);
  up = v.Pair(Stage::kConnecting);
  v.Advance(std::chrono::seconds(11));
  EXPECT_EQ(v.State(up.a, up.ac), ConnectorState::kBound);
}

TEST(Accept, CmTimeoutInReplied) {  // ND_138
  World w(2);
  auto up = w.Pair(Stage::kReplied);
  const CmId id = w.broker(0).Connections()[0].cm_id;
  w.Step(0, CmLost{id, {StatusCode::kIoTimeout}, {}});
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kIoTimeout);
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kConnectionInvalid);
}

// The peer did not withdraw; this host had no descriptor for the connection.
TEST(Accept, LackOfDescriptorsIsInsufficientResources) {
  World w(2);
  const auto up = w.Pair(Stage::kReplied);
  const CmId id = w.broker(1).Connections()[0].cm_id;
  w.Step(1, CmLost{id, {StatusCode::kInsufficientResources, "no descriptor is left"}, {}});
  EXPECT_EQ(w.Seen<Complete>(1).back().status.code(), SC::kInsufficientResources);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kDead);
}

TEST(Stale, InboundDuplicateOfALiveTuple) {
  World w(2);
  auto up = w.Pair(Stage::kConnected);
  provider::InboundRequest request;
  request.id = CmId{provider::kInboundBit + 999};
  request.adapter = "a0";
  request.local = Ip("10.0.1.1:7000");
  request.remote = Ip("10.0.0.1:6000");
  w.ClearLog();
  w.Step(1, CmRequested{request});
  ASSERT_EQ(w.Seen<CmReject>(1).size(), 1u);
  EXPECT_EQ(w.Seen<CmReject>(1)[0].detail, Detail::kStaleConnection);
  // Once the peer has ended the connection, the same addresses may be used again although the old one was not
  // closed here.
  w.Try(up.a, DisconnectOp{up.ac});
  w.Close(up.a, up.ac);
  const OpId again = w.Connect(up.a, w.Bound(up.a, "10.0.0.1:6000"), w.Qp(up.a), "10.0.1.1:7000");
  EXPECT_EQ(w.Code(up.a, again), SC::kPending);
  EXPECT_EQ(w.Close(up.p, up.pc), SC::kSuccess);
  w.Incoming(up.p, up.listener);
}

TEST(HeadToHead, ND_157) {
  World w(2);
  const auto a = w.Open(0), b = w.Open(1);
  const Handle la = w.Listener(a, "10.0.0.1:7000"), lb = w.Listener(b, "10.0.1.1:7000");
  const Handle ca = w.Bound(a, "10.0.0.1:0"), cb = w.Bound(b, "10.0.1.1:0");
  const OpId one = w.Connect(a, ca, w.Qp(a), "10.0.1.1:7000"),
             two = w.Connect(b, cb, w.Qp(b), "10.0.0.1:7000");
  EXPECT_EQ(w.Try(a, RejectOp{w.Incoming(a, la), {}, 0}), SC::kSuccess);
  EXPECT_EQ(w.Code(b, two), SC::kConnectionRefused);
  w.Submit(b, AcceptOp{w.Incoming(b, lb), w.Qp(b), {1, 1}, {}, 0, false});
  EXPECT_EQ(w.Code(a, one), SC::kSuccess);
  EXPECT_EQ(w.Try(a, CompleteConnectOp{ca, false}), SC::kSuccess);
}

// Both sides connect from the ports that they listen on and both accept: only one of the two may be up.
TEST(HeadToHead, ND_157_OnlyOneIsUp) {
  Settings s;
  s.allow_same_owner_bind_sharing = true;
  World w(2, s);
  const auto a = w.Open(0), b = w.Open(1);
  const Handle la = w.Listener(a, "10.0.0.1:7000"), lb = w.Listener(b, "10.0.1.1:7000");
  const Handle ca = w.Bound(a, "10.0.0.1:7000"), cb = w.Bound(b, "10.0.1.1:7000");
  const OpId one = w.Connect(a, ca, w.Qp(a), "10.0.1.1:7000"),
             two = w.Connect(b, cb, w.Qp(b), "10.0.0.1:7000");
  const Handle ia = w.Incoming(a, la), ib = w.Incoming(b, lb);
  const OpId accept_two = w.Submit(a, AcceptOp{ia, w.Qp(a), {1, 1}, {}, 0, false});
  const OpId accept_one = w.Submit(b, AcceptOp{ib, w.Qp(b), {1, 1}, {}, 0, false});
  ASSERT_EQ(w.Code(a, one), SC::kSuccess);
  ASSERT_EQ(w.Code(b, two), SC::kSuccess);
  EXPECT_EQ(w.Try(a, CompleteConnectOp{ca, false}), SC::kSuccess);
  EXPECT_EQ(w.Code(b, accept_one), SC::kSuccess);
  EXPECT_EQ(w.Try(b, CompleteConnectOp{cb, false}), SC::kAddressAlreadyExists);
  EXPECT_EQ(w.Code(a, accept_two), SC::kConnectionAborted);
  EXPECT_EQ(w.State(a, ca), ConnectorState::kConnected);
}

TEST(Throttle, ND_227_HandshakesGoOutInOrder) {
  Settings s;
  s.max_handshakes_in_flight = 8;
  World w(2, s);
  w.wire_is_cut = true;
  w.check_always = false;
  const auto a = w.Open(0);
  for (int i = 0; i < 100; ++i) w.Connect(a, w.Bound(a, "10.0.0.1:0"), w.Qp(a), "10.0.1.1:7000");
  ASSERT_EQ(w.Seen<CmConnect>().size(), 7u);  // One place stays free for another user.
  w.Step(0, CmFailed{w.Seen<CmConnect>()[3].params.id, {StatusCode::kIoTimeout}});
  w.Step(0, CmFailed{w.Seen<CmConnect>()[0].params.id, {StatusCode::kIoTimeout}});
  const auto sent = w.Seen<CmConnect>();
  ASSERT_EQ(sent.size(), 9u);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    EXPECT_LT(static_cast<std::uint64_t>(sent[i - 1].params.id),
              static_cast<std::uint64_t>(sent[i].params.id));
  }
  w.Advance(std::chrono::milliseconds(1001));
  EXPECT_EQ(w.Seen<CmConnect>().size(), 16u);
  EXPECT_EQ(w.broker().CheckInvariants(), "");
}

// A listener that receives requests as events and never answers has a backlog like any other.
TEST(Fair, ND_227_UserThatConnectsToItselfDelaysNoOther) {
  Settings s;
  s.max_backlog = 300;
  World w(1, s);
  w.check_always = false;
  const auto greedy = w.Open(0, 1000), honest = w.Open(0, 2000);
  const Handle l = w.NdkListener(greedy, "10.0.0.1:7000");
  w.NdkListener(honest, "10.0.0.2:8000");
  w.wire_is_cut = true;  // The connects of the greedy user stay in flight.
  std::vector<OpId> all;
  for (int i = 0; i < 1000; ++i)
    all.push_back(w.Connect(greedy, w.Bound(greedy, "10.0.0.1:0"), w.Qp(greedy), "10.0.0.1:7000"));
  ASSERT_EQ(w.Seen<CmConnect>().size(), 224u);
  w.ClearLog();
  for (int i = 0; i < 10; ++i)
    w.Connect(honest, w.Bound(honest, "10.0.0.2:0"), w.Qp(honest), "10.0.0.2:8000");
  // The connect is sent at once, although 776 connects of the other user wait.
  EXPECT_EQ(w.Seen<CmConnect>().size(), 10u);
  EXPECT_EQ(w.broker().CheckInvariants(), "");
  w.Close(greedy, l);
}

TEST(Fair, BacklogBoundsRequestsDeliveredAsEvents) {
  Settings s;
  s.max_backlog = 3;
  World w(1, s);
  const auto p = w.Open(0, 1000), a = w.Open(0, 2000);
  const Handle l = w.NdkListener(p, "10.0.0.1:7000");
  std::vector<OpId> dials;
  const auto dial = [&] {
    dials.push_back(w.Connect(a, w.Bound(a, "10.0.0.2:0"), w.Qp(a), "10.0.0.1:7000"));
    return w.Code(a, dials.back());
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(dial(), SC::kPending);
  EXPECT_EQ(dial(), SC::kConnectionRefused);
  EXPECT_EQ(w.Result(a, dials.back()).status.detail(), Detail::kBacklogFull);
  EXPECT_EQ(w.broker().Listeners()[0].backlog_used, 3u);
  // Each answer to a request, and its withdrawal, frees a place.
  const auto events = w.Seen<SendConnectEvent>();
  ASSERT_EQ(events.size(), 3u);
  w.Submit(p, AcceptOp{events[0].connector, w.Qp(p), {1, 1}, {}, 0, false});
  EXPECT_EQ(dial(), SC::kPending);
  EXPECT_EQ(w.Try(p, RejectOp{events[1].connector, {}, 0}), SC::kSuccess);
  EXPECT_EQ(dial(), SC::kPending);
  EXPECT_EQ(w.Close(p, events[2].connector), SC::kSuccess);
  EXPECT_EQ(dial(), SC::kPending);
  const auto rows = w.broker().Connections();
  for (const ConnectionRow& row : rows) {
    if (row.owner.uid == 2000 && row.state == ConnectorState::kConnecting) {
      EXPECT_EQ(w.Try(a, CancelOp{row.id}), SC::kSuccess);
      break;
    }
  }
  EXPECT_EQ(dial(), SC::kPending);
  EXPECT_EQ(dial(), SC::kConnectionRefused);
  EXPECT_EQ(w.Close(p, l), SC::kPending);
}

}  // namespace
}  // namespace nd::core
