// SPDX-License-Identifier: Apache-2.0
// Events of the wire in every state of a connector: the answer that the application gets, and the events that
// are late, repeated or about nothing (behaviour b.1, b.4, c.1, c.43; provider/cm.h).
#include <string>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

CmId IdOf(const World& w, const World::Client& client, Handle connector) {
  for (const ConnectionRow& row : w.broker(client.host).Connections()) {
    if (row.id == connector) return row.cm_id;
  }
  ADD_FAILURE() << "no such connector";
  return {};
}

provider::InboundRequest Request(std::uint64_t number, const std::string& local, const std::string& remote) {
  provider::InboundRequest request;
  request.id = CmId{provider::kInboundBit | number};
  request.adapter = "a0";
  request.local = Ip(local);
  request.remote = Ip(remote);
  request.peer_offer = {1, 1};
  return request;
}

// Of the connector's last record.
Status WhyOf(const World& w, int host, Handle connector) {
  Status why;
  for (const ConnectionRecord& record : w.Seen<ConnectionRecord>(host)) {
    if (record.id == connector) why = record.why;
  }
  return why;
}

TEST(Lost, BeforeTheAnswerIsAFailureThatMayBeRepeated) {
  for (const SC code : {SC::kConnectionAborted, SC::kIoTimeout}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kListening);
    const OpId connect = w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
    w.Step(0, CmLost{IdOf(w, up.a, up.ac), {code, "gone"}, {}});
    EXPECT_EQ(w.Code(up.a, connect), code == SC::kIoTimeout ? SC::kIoTimeout : SC::kConnectionRefused);
    EXPECT_EQ(w.Result(up.a, connect).status.message(), "gone");
    EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kBound);
    EXPECT_EQ(w.broker(0).counters().connect_failure, 1u);
  }
}

// c.43: the passive side is never told CONNECTION_REFUSED, and its own Accept did not time out.
TEST(Lost, RequestLostBeforeAcceptFailsItWithConnectionAborted) {
  for (const SC code : {SC::kConnectionAborted, SC::kIoTimeout}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kIncoming);
    w.Step(1, CmLost{IdOf(w, up.p, up.pc), {code, "gone"}, {}});
    EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kDead);
    const Complete accept = w.Call(up.p, AcceptOp{up.pc, up.pq, {1, 1}, {}, 0, false});
    EXPECT_EQ(accept.status.code(), SC::kConnectionAborted);
    EXPECT_EQ(accept.status.message(), "gone");
    EXPECT_EQ(w.Try(up.p, RejectOp{up.pc}), SC::kConnectionAborted);
  }
}

TEST(Lost, WhileCompletingEndsCompleteConnect) {
  for (const SC code : {SC::kConnectionAborted, SC::kIoTimeout, SC::kInsufficientResources}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kReplied);
    w.wire_is_cut = true;
    const OpId complete = w.Submit(up.a, CompleteConnectOp{up.ac, false});
    w.Step(0, CmLost{IdOf(w, up.a, up.ac), {code, "gone"}, {}});
    EXPECT_EQ(w.Code(up.a, complete), code);
    EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
    EXPECT_EQ(w.broker(0).counters().connect_failure, 1u);
  }
}

// c.1: with the switch a withdrawal or a rejection by the peer is CONNECTION_REFUSED; a broken wire is
// neither.
TEST(Lost, AcceptIsRefusedOnlyWhereThePeerGaveUp) {
  for (const bool refused : {false, true}) {
    for (const Detail detail : {Detail::kPeerRejected, Detail::kPeerWithdrew, Detail::kTransport}) {
      Settings settings;
      settings.accept_refused_on_reject = refused;
      World w(2, settings);
      const World::Up up = w.Pair(Stage::kReplied);
      w.Step(1, CmLost{IdOf(w, up.p, up.pc), {SC::kConnectionAborted, "", detail}, {}});
      const bool gave_up = detail != Detail::kTransport;
      EXPECT_EQ(w.Seen<Complete>(1).back().status.code(),
                refused && gave_up ? SC::kConnectionRefused : SC::kConnectionAborted);
      EXPECT_EQ(w.Seen<Complete>(1).back().status.detail(), detail);
    }
  }
}

TEST(Lost, WithoutAReasonIsAWithdrawal) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.Step(1, CmLost{IdOf(w, up.p, up.pc), {}, {}});
  const Status status = w.Seen<Complete>(1).back().status;
  EXPECT_EQ(status.code(), SC::kConnectionAborted);
  EXPECT_EQ(status.message(), "The peer withdrew.");
  EXPECT_EQ(status.detail(), Detail::kPeerWithdrew);
}

TEST(Lost, ConnectionIsClosedByItsPeer) {
  for (const bool timeout : {false, true}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnected);
    const OpId notify = w.Submit(up.a, NotifyDisconnectOp{up.ac});
    w.Step(0, CmLost{IdOf(w, up.a, up.ac), {timeout ? SC::kIoTimeout : SC::kConnectionAborted}, {}});
    EXPECT_EQ(w.Code(up.a, notify), SC::kSuccess);
    EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
    EXPECT_EQ(WhyOf(w, 0, up.ac).code(), timeout ? SC::kIoTimeout : SC::kConnectionAborted);
    EXPECT_EQ(WhyOf(w, 0, up.ac).detail(), timeout ? Detail::kWireTimeout : Detail::kTransport);
    EXPECT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kSuccess);
  }
}

TEST(Lost, EndsADisconnect) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  const OpId disconnect = w.Submit(up.a, DisconnectOp{up.ac});
  w.Step(0, CmLost{IdOf(w, up.a, up.ac), {SC::kConnectionAborted}, {}});
  EXPECT_EQ(w.Code(up.a, disconnect), SC::kSuccess);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
}

TEST(Lost, AfterThePeersGoodbyeChangesNothing) {
  World w(2);
  const World::Up up = w.Pair(Stage::kPeerClosed);
  const CmId id = IdOf(w, up.p, up.pc);
  w.ClearLog();
  w.Step(1, CmPeerClosed{id, DisconnectReason::kPeerProcessDied});
  w.Step(1, CmLost{id, {SC::kConnectionAborted}, {}});
  EXPECT_TRUE(w.Log(1).empty());
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.Try(up.p, DisconnectOp{up.pc}), SC::kSuccess);
}

// The daemon half of a device reports the goodbye of the peer.
TEST(PeerClosed, BeforeTheConnectionIsAWithdrawal) {
  for (const Stage stage : {Stage::kConnecting, Stage::kReplied, Stage::kIncoming}) {
    World w(2);
    const World::Up up = w.Pair(stage);
    const bool passive = stage == Stage::kIncoming;
    const World::Client& who = passive ? up.p : up.a;
    const Handle connector = passive ? up.pc : up.ac;
    w.Step(who.host, CmPeerClosed{IdOf(w, who, connector), DisconnectReason::kPeerDisconnected});
    EXPECT_EQ(w.State(who, connector),
              stage == Stage::kConnecting ? ConnectorState::kBound : ConnectorState::kDead);
    EXPECT_EQ(WhyOf(w, who.host, connector).detail(), Detail::kPeerWithdrew);
    EXPECT_EQ(w.Seen<CmAbort>(who.host).size(), 1u) << "the provider may forget the id";
  }
}

TEST(PeerClosed, WhileARequestWaitsFreesItsPlace) {
  World w(2);
  const World::Up up = w.Pair(Stage::kListening);
  w.Step(1, CmRequested{Request(77, "10.0.1.1:7000", "10.0.0.1:6000")});
  ASSERT_EQ(w.broker(1).Listeners()[0].backlog_used, 1u);
  w.Step(1, CmPeerClosed{CmId{provider::kInboundBit | 77}, DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.broker(1).Listeners()[0].backlog_used, 0u);
}

TEST(PeerClosed, OvertakesTheConfirmationOfEitherSide) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.wire_is_cut = true;
  const OpId complete = w.Submit(up.a, CompleteConnectOp{up.ac, false});
  w.Step(0, CmPeerClosed{IdOf(w, up.a, up.ac), DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.Code(up.a, complete), SC::kSuccess);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
  EXPECT_EQ(w.broker(0).counters().connect, 1u);
  EXPECT_EQ(w.broker(0).counters().accept, 0u);
  w.Step(1, CmPeerClosed{IdOf(w, up.p, up.pc), DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.broker(1).counters().accept, 1u);
  EXPECT_EQ(w.broker(1).counters().connect, 0u);
  EXPECT_EQ(w.broker(1).counters().active_connection, 0u);
}

TEST(PeerClosed, OfAConnectionIsToldAndCrossesADisconnect) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const OpId notify = w.Submit(up.a, NotifyDisconnectOp{up.ac});
  w.Step(0, CmPeerClosed{IdOf(w, up.a, up.ac), DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.Code(up.a, notify), SC::kSuccess);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
  w.clients_answer = false;
  const OpId disconnect = w.Submit(up.p, DisconnectOp{up.pc});
  ASSERT_EQ(w.Code(up.p, disconnect), SC::kPending);
  w.Step(1, CmPeerClosed{IdOf(w, up.p, up.pc), DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.Code(up.p, disconnect), SC::kSuccess);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kDead);
}

// b.4, 7.
TEST(Replied, PeerThatWantsMoreReadsThanTheAdapterServesIsRejected) {
  World w(2);
  const World::Up up = w.Pair(Stage::kListening);
  const OpId connect = w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
  w.Step(0, CmReplied{IdOf(w, up.a, up.ac), true, {1, 17}, {}});
  EXPECT_EQ(w.Code(up.a, connect), SC::kInsufficientResources);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kBound);
  ASSERT_EQ(w.Seen<CmReject>(0).size(), 1u);
  EXPECT_EQ(w.Seen<CmReject>(0)[0].detail, Detail::kProtocol);
  EXPECT_TRUE(w.Seen<CmAbort>(0).empty()) << "the rejection ended the id";
}

TEST(Replied, WithoutLimitsOnTheWireTheOfferIsUsed) {
  World w(2);
  const World::Up up = w.Pair(Stage::kListening);
  ConnectOp op{up.ac, up.aq, Ip("10.0.1.1:7000"), {3, 5}, {}, 0, {}, {}};
  const OpId connect = w.Submit(up.a, op);
  w.Step(0, CmReplied{IdOf(w, up.a, up.ac), false, {}, {}});
  EXPECT_EQ(w.Result(up.a, connect).reply.limits, (ReadLimits{3, 5}));
  EXPECT_EQ(w.Call(up.a, GetReadLimitsOp{up.ac}).reply.limits, (ReadLimits{3, 5}));
}

TEST(Requested, WithoutLimitsOnTheWireOnlyTheAdapterBoundsThem) {
  World w(2);
  const World::Up up = w.Pair(Stage::kListening);
  provider::InboundRequest request = Request(77, "10.0.1.1:7000", "10.0.0.1:6000");
  request.limits_known = false;
  request.peer_offer = {};
  w.Step(1, CmRequested{request});
  EXPECT_EQ(w.Call(up.p, GetReadLimitsOp{w.Incoming(up.p, up.listener)}).reply.limits, (ReadLimits{16, 16}));
}

TEST(Requested, ForNoAdapterIsRefusedAndTwiceIsIgnored) {
  World w(2);
  const World::Up up = w.Pair(Stage::kListening);
  provider::InboundRequest request = Request(77, "10.0.1.1:7000", "10.0.0.1:6000");
  w.Step(1, CmRequested{request});
  w.ClearLog();
  w.Step(1, CmRequested{request});
  request.id = {};
  w.Step(1, CmRequested{request});
  EXPECT_TRUE(w.Log(1).empty());
  request.id = CmId{provider::kInboundBit | 78};
  request.adapter = "a9";
  w.Step(1, CmRequested{request});
  ASSERT_EQ(w.Seen<CmReject>(1).size(), 1u);
  EXPECT_EQ(w.Seen<CmReject>(1)[0].detail, Detail::kAdapterDisabled);
  EXPECT_EQ(w.broker(1).Listeners()[0].backlog_used, 1u);
}

// Requests that an NDK listener cannot deliver as connectors.
TEST(Requested, EventIsRefusedWithoutAnAdapterOrAConnector) {
  for (const bool quota : {false, true}) {
    Rule rule;
    rule.limits.connectors = 0;
    World w(1, {}, quota ? Policy({rule}) : Policy());
    const auto c = w.Open();
    const Handle l = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
    ASSERT_EQ(w.Try(c, ListenOp{l, 0, Ip("10.0.0.1:7000"), true}), SC::kSuccess);
    if (!quota) w.Submit(c, CloseOp{c.adapter});
    w.Step(0, CmRequested{Request(77, "10.0.0.1:7000", "10.0.9.1:6000")});
    ASSERT_EQ(w.Seen<CmReject>().size(), 1u);
    EXPECT_EQ(w.Seen<CmReject>()[0].detail, quota ? Detail::kQuota : Detail::kListenerClosed);
    EXPECT_TRUE(w.Seen<SendConnectEvent>().empty());
  }
}

TEST(Refused, WithoutAReasonStillFailsTheConnect) {
  for (const SC code : {SC::kSuccess, SC::kPending, SC::kHostUnreachable}) {
    for (const bool answered : {false, true}) {
      World w(2);
      const World::Up up = w.Pair(Stage::kListening);
      const OpId connect = w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
      const CmId id = IdOf(w, up.a, up.ac);
      if (answered) {
        w.Step(0, CmRejected{id, Status(code), {}});
      } else {
        w.Step(0, CmFailed{id, Status(code)});
      }
      const bool reason = code == SC::kHostUnreachable;
      EXPECT_EQ(w.Code(up.a, connect), reason ? code : SC::kConnectionRefused);
      EXPECT_EQ(w.Result(up.a, connect).status.detail(), reason     ? Detail::kNone
                                                         : answered ? Detail::kPeerRejected
                                                                    : Detail::kTransport);
      EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kBound);
    }
  }
}

// Events that are late, repeated, or about a request that no application has.
TEST(Wire, EventsThatFitNothingHaveNoEffect) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.Step(1, CmRequested{Request(77, "10.0.1.1:7000", "10.0.0.2:6000")});  // Waits.
  const std::vector<CmId> none = {CmId{4242}, CmId{provider::kInboundBit | 77}};
  std::vector<CmId> ids = none;
  ids.push_back(IdOf(w, up.p, up.pc));  // Accepting: the answer and the end of an attempt are not for it.
  w.ClearLog();
  for (const CmId id : ids) {
    w.Step(1, CmReached{id});
    w.Step(1, CmReplied{id, true, {1, 1}, {}});
    w.Step(1, CmRejected{id, {SC::kConnectionRefused}, {}});
    w.Step(1, CmFailed{id, {SC::kIoTimeout}});
    w.Step(1, CmDisconnected{id, {}});
  }
  for (const CmId id : none) {
    w.Step(1, CmPrepare{id, {}});
    w.Step(1, CmEstablished{id});
  }
  w.Step(1, CmLost{CmId{4242}, {SC::kIoTimeout}, {}});
  w.Step(1, CmPeerClosed{CmId{4242}, DisconnectReason::kPeerDisconnected});
  const CmId active = IdOf(w, up.a, up.ac);
  w.Step(0, CmReached{active});
  w.Step(0, CmReplied{active, true, {1, 1}, {}});
  w.Step(0, CmEstablished{active});
  w.Step(0, CmDisconnected{active, {}});
  EXPECT_TRUE(w.Log(0).empty());
  EXPECT_TRUE(w.Log(1).empty());
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kReplied);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kAccepting);
  EXPECT_EQ(w.broker(1).Listeners()[0].backlog_used, 1u);
  ASSERT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kSuccess);
  w.ClearLog();
  w.Step(0, CmEstablished{active});
  EXPECT_TRUE(w.Log(0).empty()) << "once is enough";
}

// Both sides connect from their listening ports, and the peer's confirmation arrives after our own connection
// is up, or while it is being confirmed.
TEST(HeadToHead, ConfirmationOfTheSecondConnectionIsTooLate) {
  for (const int stage : {0, 1, 2}) {
    Settings settings;
    settings.allow_same_owner_bind_sharing = true;
    World w(2, settings);
    const auto a = w.Open(0), b = w.Open(1);
    const Handle la = w.Listener(a, "10.0.0.1:7000"), lb = w.Listener(b, "10.0.1.1:7000");
    const Handle ca = w.Bound(a, "10.0.0.1:7000"), cb = w.Bound(b, "10.0.1.1:7000");
    w.Connect(a, ca, w.Qp(a), "10.0.1.1:7000");
    w.Connect(b, cb, w.Qp(b), "10.0.0.1:7000");
    const Handle ia = w.Incoming(a, la), ib = w.Incoming(b, lb);
    const OpId accept = w.Submit(a, AcceptOp{ia, w.Qp(a), {1, 1}, {}, 0, false});
    w.Submit(b, AcceptOp{ib, w.Qp(b), {1, 1}, {}, 0, false});
    w.wire_is_cut = true;
    if (stage > 0) w.Submit(a, CompleteConnectOp{ca, false});
    if (stage > 1) w.Step(0, CmEstablished{IdOf(w, a, ca)});
    w.Step(0, CmEstablished{IdOf(w, a, ia)});
    EXPECT_EQ(w.Code(a, accept), stage > 0 ? SC::kAddressAlreadyExists : SC::kSuccess);
    EXPECT_EQ(w.State(a, ia), stage > 0 ? ConnectorState::kDead : ConnectorState::kConnected);
    EXPECT_EQ(w.broker(0).counters().accept, stage > 0 ? 0u : 1u);
  }
}

// A device disconnects by the daemon half, and only the loss of the peer is news from its queue pair.
TEST(DeviceDisconnect, ReportOfTheClientDoesNotEndIt) {
  World w(2);
  auto adapters = w.broker(0).Adapters();
  adapters[0].description.client_disconnects = false;
  w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
  const World::Up up = w.Pair(Stage::kConnected);
  const auto report = [&](TransportReportOp::What what) {
    EXPECT_EQ(w.Try(up.a, TransportReportOp{up.ac, what, {}, {}}), SC::kSuccess);
  };
  report(TransportReportOp::What::kDisconnectDone);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnected);
  const OpId disconnect = w.Submit(up.a, DisconnectOp{up.ac});
  report(TransportReportOp::What::kDisconnectDone);
  EXPECT_EQ(w.Code(up.a, disconnect), SC::kPending);
  w.Step(0, CmDisconnected{IdOf(w, up.a, up.ac), {}});
  EXPECT_EQ(w.Code(up.a, disconnect), SC::kSuccess);
}

TEST(DeviceDisconnect, CancelAndKillNeedNoCommandToTheClient) {
  for (const bool kill : {false, true}) {
    World w(2);
    auto adapters = w.broker(0).Adapters();
    adapters[0].description.client_disconnects = false;
    w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
    const World::Up up = w.Pair(Stage::kConnected);
    if (kill) {
      w.Step(0, KillConnection{up.ac});
      EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kPeerClosed);
    } else {
      w.Submit(up.a, DisconnectOp{up.ac});
      EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kSuccess);
      EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
    }
    EXPECT_TRUE(w.Seen<SendTransportCommand>(0).empty());
    EXPECT_EQ(w.Seen<CmAbort>(0).size(), 1u);
  }
}

TEST(Report, DisconnectWhileTheBrokerWasAway) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  EXPECT_EQ(w.Try(up.a, TransportReportOp{up.ac, TransportReportOp::What::kDisconnectDone, {}, {}}),
            SC::kSuccess);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
  EXPECT_EQ(w.Seen<ConnectionRecord>(0).back().outcome, ConnectionRecord::Outcome::kClosed);
}

TEST(Report, UnansweredGoodbyeIsATimeOutAndACrossingOneIsNot) {
  for (const bool unanswered : {false, true}) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnected);
    w.clients_answer = false;
    const OpId disconnect = w.Submit(up.a, DisconnectOp{up.ac});
    const auto report = [&](TransportReportOp::What what, Status status) {
      w.Submit(up.a, TransportReportOp{up.ac, what, DisconnectReason::kPeerDisconnected, std::move(status)});
    };
    report(TransportReportOp::What::kPeerClosed, {});
    EXPECT_EQ(w.Code(up.a, disconnect), SC::kPending) << "the answer to ours is still to come";
    report(TransportReportOp::What::kDisconnectDone, unanswered ? Status(SC::kIoTimeout) : Status());
    EXPECT_EQ(w.Code(up.a, disconnect), unanswered ? SC::kIoTimeout : SC::kSuccess);
    report(TransportReportOp::What::kDisconnectDone, {});
    EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
  }
}

// behaviour b.6: the reason codes, and the status that the record of the connection gets.
TEST(Report, EachReasonHasItsRecord) {
  struct Row {
    DisconnectReason reason;
    SC code;
    Detail detail;
  };
  const std::vector<Row> rows = {
      {DisconnectReason::kPeerBrokerLost, SC::kConnectionAborted, Detail::kPeerBrokerLost},
      {DisconnectReason::kTransportRetryExceeded, SC::kIoTimeout, Detail::kWireTimeout},
      {DisconnectReason::kLocalAdministrator, SC::kConnectionAborted, Detail::kLocalAdministrator},
      {DisconnectReason::kAdapterDisabled, SC::kDeviceRemoved, Detail::kAdapterDisabled},
      {DisconnectReason::kEstablishmentFailed, SC::kConnectionAborted, Detail::kTransport},
      {static_cast<DisconnectReason>(200), SC::kConnectionAborted, Detail::kTransport}};
  for (const Row& row : rows) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnected);
    w.Submit(up.a, TransportReportOp{up.ac, TransportReportOp::What::kPeerClosed, row.reason, {}});
    const Status why = WhyOf(w, 0, up.ac);
    EXPECT_EQ(why.code(), row.code) << static_cast<int>(row.reason);
    EXPECT_EQ(why.detail(), row.detail) << static_cast<int>(row.reason);
    EXPECT_EQ(w.Seen<ConnectionRecord>(0).back().reason,
              row.reason > DisconnectReason::kEstablishmentFailed ? DisconnectReason::kUnknown : row.reason);
  }
}

}  // namespace
}  // namespace nd::core
