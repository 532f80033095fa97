// SPDX-License-Identifier: Apache-2.0
// Each connection and each attempt is recorded exactly once at its beginning and once at its end, with its
// identity, the duration of each step and the reason of its end.
#include <cerrno>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using Outcome = ConnectionRecord::Outcome;
using Stage = World::Stage;

// All records of one connector, in order.
std::vector<ConnectionRecord> Of(const World& world, int host, Handle connector) {
  std::vector<ConnectionRecord> records;
  for (const ConnectionRecord& record : world.Seen<ConnectionRecord>(host)) {
    if (record.id == connector) records.push_back(record);
  }
  return records;
}

std::vector<Outcome> Outcomes(const World& world, int host, Handle connector) {
  std::vector<Outcome> outcomes;
  for (const ConnectionRecord& record : Of(world, host, connector)) outcomes.push_back(record.outcome);
  return outcomes;
}

double Milliseconds(Time from, std::optional<Time> to) {
  return to ? std::chrono::duration<double, std::milli>(*to - from).count() : -1;
}

Time EndOf(const PhaseTimes& times, Phase phase) {
  const std::optional<Time> end = times.ended[static_cast<std::size_t>(phase)];
  EXPECT_TRUE(end.has_value()) << PhaseName(phase);
  return end.value_or(Time());
}

TEST(Record, CoversTheWholeLifeOfAConnection) {
  World w(2);
  World::Up up = w.Pair(Stage::kListening);
  const Time start = w.now();
  const auto tick = [&] { w.Advance(std::chrono::milliseconds(10)); };
  const OpId connect = w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
  tick();
  up.pc = w.Incoming(up.p, up.listener);  // Waited 10 ms for its application.
  tick();
  w.Submit(up.p, AcceptOp{up.pc, up.pq, {4, 2}, {}, 0, false});
  ASSERT_EQ(w.Code(up.a, connect), StatusCode::kSuccess);
  tick();
  ASSERT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), StatusCode::kSuccess);
  tick();
  ASSERT_EQ(w.Try(up.a, DisconnectOp{up.ac}), StatusCode::kSuccess);

  const std::vector<ConnectionRecord> active = Of(w, 0, up.ac), passive = Of(w, 1, up.pc);
  ASSERT_EQ(active.size(), 2u);
  ASSERT_EQ(passive.size(), 2u);
  EXPECT_EQ(active[0].outcome, Outcome::kEstablished);
  EXPECT_FALSE(active[0].ended.has_value());
  const ConnectionRecord& a = active[1];
  EXPECT_EQ(a.outcome, Outcome::kClosed);
  EXPECT_EQ(a.session, up.a.session);
  EXPECT_EQ(a.owner->command, "test");
  EXPECT_EQ(a.adapter, "a0");
  EXPECT_EQ(a.local, Ip("10.0.0.1:6000"));
  EXPECT_EQ(a.peer, Ip("10.0.1.1:7000"));
  EXPECT_FALSE(a.passive);
  EXPECT_TRUE(a.counter_slot.has_value());
  EXPECT_TRUE(a.why.ok());
  EXPECT_EQ(Milliseconds(start, a.phases.began), 0);
  EXPECT_EQ(Milliseconds(start, EndOf(a.phases, Phase::kQueue)), 0);
  EXPECT_EQ(Milliseconds(start, EndOf(a.phases, Phase::kReply)), 20);
  EXPECT_EQ(Milliseconds(start, EndOf(a.phases, Phase::kComplete)), 30);
  EXPECT_EQ(Milliseconds(start, EndOf(a.phases, Phase::kEstablish)), 30);
  EXPECT_EQ(Milliseconds(start, a.established), 30);
  EXPECT_EQ(Milliseconds(start, a.ended), 40);

  const ConnectionRecord& p = passive[1];
  EXPECT_TRUE(p.passive);
  EXPECT_EQ(p.outcome, Outcome::kClosed);
  EXPECT_EQ(p.reason, DisconnectReason::kPeerDisconnected);
  EXPECT_EQ(Milliseconds(start, p.phases.began), 0) << "a request lives from its arrival";
  EXPECT_EQ(Milliseconds(start, EndOf(p.phases, Phase::kDeliver)), 10);
  EXPECT_EQ(Milliseconds(start, EndOf(p.phases, Phase::kAccept)), 20);
  EXPECT_EQ(Milliseconds(start, EndOf(p.phases, Phase::kEstablish)), 30);
  EXPECT_EQ(p.limits, (ReadLimits{4, 2}));
}

TEST(Record, ShowsTheConnectPhaseWhereTheWireCanTell) {
  World w(2);
  World::Up up = w.Pair(Stage::kListening);
  w.wire_is_cut = true;
  w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
  w.Advance(std::chrono::milliseconds(7));
  const CmConnect sent = w.Seen<CmConnect>(0).back();
  w.Step(0, CmReached{sent.params.id});
  const ConnectionRow row = w.broker(0).Connections().front();
  ASSERT_TRUE(row.phases.has_value());
  EXPECT_EQ(Milliseconds(row.phases->began, EndOf(*row.phases, Phase::kConnect)), 7);
  EXPECT_FALSE(row.phases->ended[static_cast<std::size_t>(Phase::kReply)].has_value());
  w.Step(0, CmReached{CmId{777}});  // Of no connector.
}

TEST(Record, EachFailedAttemptHasARecordWithItsStatus) {
  World w(2);
  World::Up up = w.Pair(Stage::kListening);
  w.fail_connects = Status(StatusCode::kHostUnreachable, "no route", Detail::kTransport, 113);
  for (int i = 0; i < 2; ++i) w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
  const std::vector<ConnectionRecord> records = Of(w, 0, up.ac);
  ASSERT_EQ(records.size(), 2u);
  for (const ConnectionRecord& record : records) {
    EXPECT_EQ(record.outcome, Outcome::kFailed);
    EXPECT_EQ(record.why.code(), StatusCode::kHostUnreachable);
    EXPECT_EQ(record.why.native(), 113);
    EXPECT_EQ(record.peer, Ip("10.0.1.1:7000"));
    EXPECT_FALSE(record.established.has_value());
  }
}

TEST(Record, LocalRefusalIsAFailedAttemptAndBadArgumentsAreNot) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  const Handle second = w.Bound(up.a, "10.0.0.1:6001");
  w.Connect(up.a, second, up.aq, "10.0.1.1:7000");  // The queue pair is in use.
  ASSERT_EQ(Outcomes(w, 0, second), std::vector{Outcome::kFailed});
  EXPECT_EQ(Of(w, 0, second)[0].peer, Ip("10.0.1.1:7000"));
  w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");  // The connector is connected.
  EXPECT_EQ(Outcomes(w, 0, up.ac), std::vector{Outcome::kEstablished});
}

TEST(Record, RejectedCancelledAndClosedAttemptsFail) {
  World w(2);
  World::Up up = w.Pair(Stage::kIncoming);
  w.Try(up.p, RejectOp{up.pc, Data("no"), 2});
  EXPECT_EQ(Outcomes(w, 0, up.ac), std::vector{Outcome::kFailed});
  EXPECT_EQ(Of(w, 0, up.ac)[0].why.detail(), Detail::kPeerRejected);
  EXPECT_EQ(Outcomes(w, 1, up.pc), std::vector{Outcome::kFailed});

  World w2(2);
  up = w2.Pair(Stage::kConnecting);
  w2.Try(up.a, CancelOp{up.ac});
  ASSERT_EQ(Outcomes(w2, 0, up.ac), std::vector{Outcome::kFailed});
  EXPECT_EQ(Of(w2, 0, up.ac)[0].why.code(), StatusCode::kCanceled);

  World w3(2);
  up = w3.Pair(Stage::kReplied);
  w3.Close(up.a, up.ac);
  EXPECT_EQ(Outcomes(w3, 0, up.ac), std::vector{Outcome::kFailed});
  EXPECT_EQ(Outcomes(w3, 1, up.pc), std::vector{Outcome::kFailed});
}

TEST(Record, UndeliveredRequestsHaveNone) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnecting);
  w.Close(up.a, up.ac);
  EXPECT_TRUE(w.Seen<ConnectionRecord>(1).empty());
}

TEST(Record, DeathOfTheApplicationIsDiedHereAndBrokenThere) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  w.Die(up.a);
  EXPECT_EQ(Outcomes(w, 0, up.ac), (std::vector{Outcome::kEstablished, Outcome::kDied}));
  EXPECT_TRUE(Of(w, 0, up.ac)[1].counter_slot.has_value()) << "its last counts are to be had";
  ASSERT_EQ(Outcomes(w, 1, up.pc), (std::vector{Outcome::kEstablished, Outcome::kBroken}));
  EXPECT_EQ(Of(w, 1, up.pc)[1].reason, DisconnectReason::kPeerProcessDied);
  // Between hosts only the reset is known.
  EXPECT_EQ(Of(w, 1, up.pc)[1].why.detail(), Detail::kTransport);
  EXPECT_EQ(Of(w, 1, up.pc)[1].why.native(), ECONNRESET);
  EXPECT_TRUE(Of(w, 1, up.pc)[1].why.message().starts_with("Reset by the other side"));

  World here(1);
  up = here.Pair(Stage::kConnected);
  here.Die(up.a);
  EXPECT_EQ(Of(here, 0, up.pc)[1].why.detail(), Detail::kPeerProcessDied);
}

TEST(Record, DeathAfterDisconnectIsClosed) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  w.Submit(up.a, DisconnectOp{up.ac});
  w.Die(up.a);
  EXPECT_EQ(Outcomes(w, 0, up.ac), (std::vector{Outcome::kEstablished, Outcome::kClosed}));
}

TEST(Record, KillsAreKilled) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, KillConnection{up.ac});
  EXPECT_EQ(Outcomes(w, 0, up.ac), (std::vector{Outcome::kEstablished, Outcome::kKilled}));
  EXPECT_EQ(Of(w, 0, up.ac)[1].why.detail(), Detail::kLocalAdministrator);
  w.Close(up.a, up.ac);
  EXPECT_EQ(Outcomes(w, 0, up.ac).size(), 2u);

  for (const Stage stage : {Stage::kConnecting, Stage::kReplied}) {
    World attempt(2);
    up = attempt.Pair(stage);
    attempt.Step(0, KillConnection{up.ac});
    EXPECT_EQ(Outcomes(attempt, 0, up.ac), std::vector{Outcome::kKilled});
  }

  World session(2);
  up = session.Pair(Stage::kConnected);
  session.Step(1, KillSession{up.p.session});
  EXPECT_EQ(Outcomes(session, 1, up.pc), (std::vector{Outcome::kEstablished, Outcome::kKilled}));
}

// The transport of the other side reports each of these as a death.
TEST(Record, KillIsRecordedAtBothEnds) {
  World w(1);
  World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, KillConnection{up.ac});
  ASSERT_EQ(Outcomes(w, 0, up.pc), (std::vector{Outcome::kEstablished, Outcome::kBroken}));
  EXPECT_EQ(Of(w, 0, up.pc)[1].reason, DisconnectReason::kLocalAdministrator);
  EXPECT_EQ(Of(w, 0, up.pc)[1].why.detail(), Detail::kLocalAdministrator);
  EXPECT_EQ(Of(w, 0, up.pc)[1].why.code(), StatusCode::kConnectionAborted);
  EXPECT_EQ(Of(w, 0, up.pc)[1].why.message(), "The administrator ended its other side.");

  World passive(1);
  up = passive.Pair(Stage::kConnected);
  passive.Step(0, KillConnection{up.pc});
  EXPECT_EQ(Of(passive, 0, up.ac)[1].why.detail(), Detail::kLocalAdministrator);

  World session(1);
  up = session.Pair(Stage::kConnected);
  session.Step(0, KillSession{up.p.session});
  session.Die(up.p);  // Its client releases its objects.
  EXPECT_EQ(Of(session, 0, up.ac)[1].reason, DisconnectReason::kLocalAdministrator);
  EXPECT_EQ(Of(session, 0, up.ac)[1].why.detail(), Detail::kLocalAdministrator);

  World adapter(1);
  const World::Client a = adapter.Open(0, 0, 0, "a1"), p = adapter.Open(0);
  const Handle listener = adapter.Listener(p, "10.0.0.1:7000");
  const Handle ac = adapter.Bound(a, "10.1.0.1:6000"), aq = adapter.Qp(a), pq = adapter.Qp(p);
  adapter.Connect(a, ac, aq, "10.0.0.1:7000");
  const Handle pc = adapter.Incoming(p, listener);
  adapter.Submit(p, AcceptOp{pc, pq, {1, 1}, {}, 0, false});
  ASSERT_EQ(adapter.Try(a, CompleteConnectOp{ac, false}), StatusCode::kSuccess);
  adapter.Step(0, SetAdapter{"a1", false});
  ASSERT_EQ(Outcomes(adapter, 0, pc), (std::vector{Outcome::kEstablished, Outcome::kBroken}));
  EXPECT_EQ(Of(adapter, 0, pc)[1].reason, DisconnectReason::kAdapterDisabled);
  EXPECT_EQ(Of(adapter, 0, pc)[1].why.detail(), Detail::kAdapterDisabled);
  EXPECT_EQ(Of(adapter, 0, pc)[1].why.code(), StatusCode::kConnectionAborted)
      << "this side's adapter is well";
}

TEST(Record, KillByAnotherBrokerIsAResetHere) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, KillConnection{up.ac});
  EXPECT_EQ(Of(w, 1, up.pc)[1].why.detail(), Detail::kTransport);
  EXPECT_TRUE(Of(w, 1, up.pc)[1].why.message().starts_with("Reset by the other side"));
}

TEST(Record, ReattachedSessionClearsItsEnd) {
  World w(1);
  World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, KillSession{up.a.session});
  const World::Client again = w.Open(0);
  ASSERT_TRUE(w.Call(again, w.Returning(again, "10.0.0.1:6000", "10.0.0.1:7000", false)).reply.handle);
  w.Submit(up.p, TransportReportOp{
                     up.pc, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerProcessDied, {}});
  EXPECT_EQ(Of(w, 0, up.pc)[1].why.detail(), Detail::kPeerProcessDied);
}

TEST(Record, EndedSessionHasItsReason) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, SessionClosed{up.a.session, {StatusCode::kInsufficientResources, "it does not read"}});
  ASSERT_EQ(Outcomes(w, 0, up.ac), (std::vector{Outcome::kEstablished, Outcome::kDied}));
  EXPECT_NE(Of(w, 0, up.ac)[1].why.message().find("it does not read"), std::string::npos);

  World here(1);
  up = here.Pair(Stage::kConnected);
  here.Step(0, SessionClosed{up.a.session, {StatusCode::kInsufficientResources, "it does not read"}});
  here.Submit(up.p, TransportReportOp{
                        up.pc, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerProcessDied, {}});
  ASSERT_EQ(Outcomes(here, 0, up.pc), (std::vector{Outcome::kEstablished, Outcome::kBroken}));
  EXPECT_NE(Of(here, 0, up.pc)[1].why.message().find("it does not read"), std::string::npos);
  EXPECT_NE(Of(here, 0, up.pc)[1].why.detail(), Detail::kPeerProcessDied) << "its process lives";
}

TEST(Record, CauseOfTheTransportIsRecorded) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  const Status crc(StatusCode::kConnectionAborted, "CRC mismatch.", Detail::kProtocol);
  w.Submit(up.p,
           TransportReportOp{up.pc, TransportReportOp::What::kPeerClosed, DisconnectReason::kUnknown, crc});
  ASSERT_EQ(Outcomes(w, 1, up.pc), (std::vector{Outcome::kEstablished, Outcome::kBroken}));
  EXPECT_EQ(Of(w, 1, up.pc)[1].why.ToString(), crc.ToString());
  // A disconnect remains a disconnect.
  World bye(2);
  up = bye.Pair(Stage::kConnected);
  bye.Submit(up.p, TransportReportOp{up.pc, TransportReportOp::What::kPeerClosed,
                                     DisconnectReason::kPeerDisconnected, crc});
  EXPECT_EQ(Outcomes(bye, 1, up.pc), (std::vector{Outcome::kEstablished, Outcome::kClosed}));
}

TEST(Record, DisabledAdapterBreaksConnectionsAndFailsAttempts) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  w.Step(0, SetAdapter{"a0", false});
  ASSERT_EQ(Outcomes(w, 0, up.ac), (std::vector{Outcome::kEstablished, Outcome::kBroken}));
  EXPECT_EQ(Of(w, 0, up.ac)[1].why.code(), StatusCode::kDeviceRemoved);

  World attempt(2);
  up = attempt.Pair(Stage::kIncoming);
  attempt.Step(1, SetAdapter{"a0", false});
  EXPECT_EQ(Outcomes(attempt, 1, up.pc), std::vector{Outcome::kFailed});
}

TEST(Record, StoppedBrokerRecordsContinuingConnections) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  const Handle trying = w.Bound(up.a, "10.0.0.1:6001");
  w.Connect(up.a, trying, w.Qp(up.a), "10.0.1.1:7000");
  w.Step(0, Stopping{});
  ASSERT_EQ(Outcomes(w, 0, up.ac), (std::vector{Outcome::kEstablished, Outcome::kClosed}));
  EXPECT_FALSE(Of(w, 0, up.ac)[1].why.message().empty());
  EXPECT_EQ(Outcomes(w, 0, trying), std::vector{Outcome::kFailed});
  w.Die(up.a);
  EXPECT_EQ(Outcomes(w, 0, up.ac).size(), 2u);
}

TEST(Record, ReattachedConnectionIsEstablishedAgain) {
  World w(2);
  const World::Client c = w.Open(0);
  const Handle back = w.Call(c, w.Returning(c, "10.0.0.1:6000", "10.0.1.1:7000", false)).reply.handle;
  ASSERT_TRUE(back);
  EXPECT_EQ(Outcomes(w, 0, back), std::vector{Outcome::kEstablished});
  w.Die(c);
  EXPECT_EQ(Outcomes(w, 0, back), (std::vector{Outcome::kEstablished, Outcome::kDied}));
}

}  // namespace
}  // namespace nd::core
