// SPDX-License-Identifier: Apache-2.0
// An ended session is reclaimed in slices, and other sessions are served in between.
#include "daemon/core/core_harness.h"
#include "daemon/core/op_log.h"
#include "daemon/core/quota.h"

namespace nd::core {
namespace {

using SC = StatusCode;

class ReclaimTest : public ::testing::Test {
 protected:
  ReclaimTest() { w_.reclaim_at_once = false; }
  void ReclaimAll() {
    while (w_.broker().reclaiming()) w_.Step(0, ReclaimSome{});
  }
  std::size_t Held() { return w_.broker().Connections().size() + w_.broker().QueuePairs().size(); }

  World w_{1, {}, {}, 10};
};

TEST_F(ReclaimTest, NoStepReclaimsMoreThanASlice) {
  const auto big = w_.Open(), other = w_.Open(0, 2000);
  for (int i = 0; i < 100; ++i) {
    w_.Bound(big, "10.0.0.1:0");
    w_.Qp(big);
  }
  w_.Die(big);
  std::size_t held = Held(), steps = 0;
  EXPECT_EQ(held, 190u);
  while (w_.broker().reclaiming()) {
    w_.ClearLog();
    w_.Step(0, ReclaimSome{});
    EXPECT_LE(held - Held(), 10u);
    EXPECT_LE(w_.Seen<LeaseFreed>().size(), 10u);
    held = Held();
    ++steps;
    // Another session is served in between.
    EXPECT_EQ(w_.Close(other, w_.Connector(other)), SC::kSuccess);
  }
  EXPECT_EQ(steps, 20u);  // With the adapter, which is an object too.
  EXPECT_TRUE(w_.broker().Ports().empty());
  EXPECT_EQ(w_.broker().Sessions().size(), 1u);
}

TEST_F(ReclaimTest, TheSizeOfASliceIsAnInput) {
  const auto big = w_.Open();
  for (int i = 0; i < 100; ++i) w_.Connector(big);
  w_.Die(big);  // The first slice, of 10.
  const auto reclaimed = [this](std::uint32_t slice) {
    const std::size_t held = Held();
    w_.Step(0, ReclaimSome{slice});
    return held - Held();
  };
  EXPECT_EQ(Held(), 90u);
  EXPECT_EQ(reclaimed(3), 3u);
  EXPECT_EQ(reclaimed(0), 3u) << "as many as before";
  EXPECT_EQ(reclaimed(50), 50u);
  EXPECT_EQ(reclaimed(0), 34u) << "all that were left";
}

TEST_F(ReclaimTest, ResourcesStayTakenUntilReclaimed) {
  const auto big = w_.Open(0, 1000), other = w_.Open(0, 2000);
  const Handle l = w_.Listener(big, "10.0.0.1:7000");
  for (int i = 0; i < 30; ++i) w_.Connector(big);
  w_.Die(big);
  ASSERT_TRUE(w_.broker().reclaiming());
  const Handle mine = w_.Call(other, CreateListenerOp{other.adapter}).reply.handle;
  EXPECT_EQ(w_.Try(other, BindOp{mine, Ip("10.0.0.1:7000")}), SC::kSharingViolation);
  // The port has no listener any more, although the object is not reclaimed yet.
  const OpId refused = w_.Connect(other, w_.Bound(other, "10.0.0.2:0"), w_.Qp(other), "10.0.0.1:7000");
  EXPECT_EQ(w_.Code(other, refused), SC::kConnectionRefused);
  ReclaimAll();
  EXPECT_EQ(w_.Try(other, BindOp{mine, Ip("10.0.0.1:7000")}), SC::kSuccess);
  EXPECT_EQ(w_.Try(other, CancelOp{l}), SC::kInvalidHandle);
}

TEST_F(ReclaimTest, SmallSessionDoesNotWaitForALargeOne) {
  const auto big = w_.Open(), small = w_.Open();
  for (int i = 0; i < 100; ++i) w_.Connector(big);
  w_.Connector(small);
  w_.Die(big);
  w_.Die(small);
  EXPECT_TRUE(w_.broker().reclaiming());
  EXPECT_FALSE(w_.broker().HasSession(small.session));
  EXPECT_TRUE(w_.broker().HasSession(big.session));
}

TEST_F(ReclaimTest, WaitingRequestsAndNotificationsCountToo) {
  World::Client server = w_.Open(0, 1000), client = w_.Open(0, 2000);
  w_.Listener(server, "10.0.0.1:7000");
  std::vector<OpId> dials;
  for (int i = 0; i < 50; ++i) {
    dials.push_back(w_.Connect(client, w_.Bound(client, "10.0.0.2:0"), w_.Qp(client), "10.0.0.1:7000"));
  }
  w_.Die(server);
  std::size_t told = 0;
  while (w_.broker().reclaiming()) {
    w_.ClearLog();
    w_.Step(0, ReclaimSome{});
    EXPECT_LE(w_.Seen<CmReject>().size(), 10u);
    told += w_.Seen<CmReject>().size();
  }
  EXPECT_GE(told, 40u);  // The first slice was part of SessionClosed.
  for (const OpId dial : dials) EXPECT_EQ(w_.Code(client, dial), SC::kConnectionRefused);
}

TEST_F(ReclaimTest, NotificationsOfOneConnectionAreReclaimedInSlices) {
  World w(2, {}, {}, 10);
  w.reclaim_at_once = false;
  const auto up = w.Pair(World::Stage::kConnected);
  for (int i = 0; i < 50; ++i) w.Submit(up.a, NotifyDisconnectOp{up.ac});
  w.Step(0, SessionClosed{up.a.session});
  int steps = 1;
  for (; w.broker(0).reclaiming() && steps < 100; ++steps) {
    const auto rows = w.broker(0).Sessions();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].pending_operations, 50u - 10u * static_cast<unsigned>(steps));
    w.Step(0, ReclaimSome{});
  }
  EXPECT_EQ(steps, 6);
  EXPECT_FALSE(w.broker(0).HasSession(up.a.session));
}

// The attempt failed after its session had ended: its application ended it.
TEST_F(ReclaimTest, RecordOfAConnectorThatWaitsForReclaimSaysThatItsApplicationEnded) {
  World w(1, {}, {}, 1);
  w.reclaim_at_once = false;
  w.pair_has_older_connectors = true;
  const auto up = w.Pair(World::Stage::kConnecting);
  w.Step(0, SessionClosed{up.a.session});
  w.Step(0, CmFailed{w.Seen<CmConnect>().back().params.id, {SC::kIoTimeout}});
  while (w.broker().reclaiming()) w.Step(0, ReclaimSome{});
  const ConnectionRecord record = w.Seen<ConnectionRecord>().back();
  EXPECT_EQ(record.id, up.ac);
  EXPECT_EQ(record.outcome, ConnectionRecord::Outcome::kDied);
}

// Events of the wire in the meantime have no effect and leave nothing behind.
TEST_F(ReclaimTest, EventsForConnectorsThatWaitForReclaimAreIgnored) {
  using Stage = World::Stage;
  for (const Stage stage : {Stage::kConnecting, Stage::kIncoming, Stage::kReplied, Stage::kConnected}) {
    for (int what = 0; what < 6; ++what) {
      World w(1, {}, {}, 1);
      w.reclaim_at_once = false;
      w.pair_has_older_connectors = true;  // They are reclaimed first.
      const auto pair = w.Pair(stage, "10.0.0.1:6000");
      const CmId id = w.Seen<CmConnect>().back().params.id;
      const CmId inbound{provider::kInboundBit | 1};
      w.Step(0, SessionClosed{pair.a.session});
      w.Step(0, SessionClosed{pair.p.session});
      ASSERT_EQ(w.State(pair.a, pair.ac), w.broker().Connections()[0].state) << "not reclaimed yet";
      w.ClearLog();
      for (const CmId of : {id, inbound}) {
        if (what == 0) w.Step(0, CmReplied{of, true, {1, 1}, {}});
        if (what == 1) w.Step(0, CmRejected{of, {SC::kConnectionRefused}, {}});
        if (what == 2) w.Step(0, CmFailed{of, {SC::kIoTimeout}});
        if (what == 3) w.Step(0, CmEstablished{of});
        if (what == 4) w.Step(0, CmLost{of, {SC::kConnectionAborted}, {}});
        if (what == 5) w.Step(0, CmPeerClosed{of, DisconnectReason::kPeerDisconnected});
      }
      while (w.broker().reclaiming()) w.Step(0, ReclaimSome{});
      EXPECT_TRUE(w.Seen<Complete>().empty());
      EXPECT_TRUE(w.Seen<HandOffTo>().empty());
      EXPECT_TRUE(w.Seen<SendDisconnectEvent>().empty());
      EXPECT_TRUE(w.broker().Connections().empty());
      EXPECT_TRUE(w.broker().Ports().empty());
      EXPECT_FALSE(w.broker().NextDeadline());
    }
  }
}

// A place on the wire that becomes free goes to a live session.
TEST_F(ReclaimTest, ConnectsOfAnEndedSessionAreNotSent) {
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  World w(2, settings, {}, 2);
  w.reclaim_at_once = false;
  w.wire_is_cut = true;
  const auto dead = w.Open(0, 1000), living = w.Open(0, 1000);
  for (int i = 0; i < 20; ++i) w.Connect(dead, w.Bound(dead, "10.0.0.1:0"), w.Qp(dead), "10.0.1.1:7000");
  w.Connect(living, w.Bound(living, "10.0.0.2:0"), w.Qp(living), "10.0.1.1:7000");
  ASSERT_EQ(w.Seen<CmConnect>().size(), 1u);
  w.Die(dead);
  while (w.broker().reclaiming()) w.Step(0, ReclaimSome{});
  ASSERT_EQ(w.Seen<CmConnect>().size(), 2u);
  EXPECT_TRUE(w.Seen<CmConnect>().back().params.local.same_ip(Ip("10.0.0.2")));
}

// Connects of ended sessions leave the line a slice at a time, so that they hold no event up.
TEST_F(ReclaimTest, WaitingConnectsOfAnEndedSessionLeaveInSlices) {
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  World w(2, settings, {}, 2);
  w.reclaim_at_once = false;
  w.wire_is_cut = true;
  const auto dead = w.Open(0, 1000), living = w.Open(0, 1000);
  for (int i = 0; i < 40; ++i) w.Connector(dead);  // Reclaimed first.
  for (int i = 0; i < 21; ++i) w.Connect(dead, w.Bound(dead, "10.0.0.1:0"), w.Qp(dead), "10.0.1.1:7000");
  w.Connect(living, w.Bound(living, "10.0.0.2:0"), w.Qp(living), "10.0.1.1:7000");
  ASSERT_EQ(w.Seen<CmConnect>().size(), 1u);
  w.Step(0, SessionClosed{dead.session});
  w.Step(0, CmFailed{w.Seen<CmConnect>()[0].params.id, {SC::kIoTimeout}});  // The place is free.
  int events = 0;
  for (; w.Seen<CmConnect>().size() == 1 && events < 100; ++events) w.Step(0, Tick{});
  EXPECT_EQ(events, 100) << "a tick sends nothing";
  for (events = 0; w.Seen<CmConnect>().size() == 1 && events < 100; ++events) w.Step(0, ReclaimSome{});
  EXPECT_EQ(events, 6) << "three at a time";
}

// A connect on another adapter waits behind them.
TEST_F(ReclaimTest, ConnectsOfAnEndedSessionLeaveWithTheirAdapter) {
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  World w(2, settings, {}, 2);
  w.reclaim_at_once = false;
  w.wire_is_cut = true;
  const auto dead = w.Open(0, 1000), living = w.Open(0, 1000, 0, "a1");
  for (int i = 0; i < 40; ++i) w.Connector(dead);  // Reclaimed first.
  for (int i = 0; i < 21; ++i) w.Connect(dead, w.Bound(dead, "10.0.0.1:0"), w.Qp(dead), "10.0.1.1:7000");
  w.Connect(living, w.Bound(living, "10.1.0.1:0"), w.Qp(living), "10.0.1.1:7000");
  w.Step(0, SessionClosed{dead.session});
  w.Step(0, CmFailed{w.Seen<CmConnect>()[0].params.id, {SC::kIoTimeout}});
  ASSERT_EQ(w.Seen<CmConnect>().size(), 1u);
  w.Step(0, SetAdapter{"a0", false});
  EXPECT_EQ(w.Seen<CmConnect>().size(), 2u);
  while (w.broker().reclaiming()) w.Step(0, ReclaimSome{});
}

// The answer of the host for a port arrives after its session ended.
TEST_F(ReclaimTest, HostPortGrantedTooLateIsReleased) {
  for (const bool granted : {true, false}) {
    World w(1, {}, {}, 1);
    w.reclaim_at_once = false;
    w.KeepPorts();
    const auto c = w.Open();
    for (int i = 0; i < 5; ++i) w.Connector(c);
    w.answer_reserves = false;
    const Handle l = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
    w.Submit(c, BindOp{l, Ip("10.0.0.1:7000")});
    const EndpointId endpoint = w.Seen<CmReserve>().back().endpoint;
    w.Step(0, SessionClosed{c.session});
    ASSERT_TRUE(w.broker().reclaiming());
    w.Step(0, CmReserved{endpoint, {granted ? SC::kSuccess : SC::kSharingViolation}});
    while (w.broker().reclaiming()) w.Step(0, ReclaimSome{});
    EXPECT_EQ(w.Seen<CmRelease>().size(), granted ? 1u : 0u);
    EXPECT_TRUE(w.broker().Ports().empty());
  }
}

TEST_F(ReclaimTest, StoppingBrokerRecordsTheEndOfConnections) {
  World w(1, {}, {}, 1);
  w.reclaim_at_once = false;
  w.pair_has_older_connectors = true;  // They are reclaimed first.
  const auto up = w.Pair(World::Stage::kConnected);
  w.Step(0, SessionClosed{up.a.session});
  w.Step(0, Stopping{});
  std::uint32_t ends = 0;
  for (const ConnectionRecord& record : w.Seen<ConnectionRecord>()) {
    if (record.outcome == ConnectionRecord::Outcome::kEstablished) continue;
    ++ends;
    EXPECT_EQ(record.outcome == ConnectionRecord::Outcome::kDied, record.session == up.a.session);
  }
  EXPECT_EQ(ends, 2u);
}

// The limit of completions holds for a user, regardless of the number of sessions.
TEST(Remembered, BytesAreLimitedPerUser) {
  World w;
  w.check_always = false;
  std::vector<World::Client> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(w.Open(0, 1000));
  const auto other = w.Open(0, 2000);
  const OpId first = w.Submit(other, ListAdaptersOp{});
  for (const World::Client& client : clients) {
    for (int i = 0; i < 1100; ++i) w.Submit(client, ListAdaptersOp{});
    w.ClearLog();
  }
  EXPECT_EQ(w.broker().CheckInvariants(), "");
  EXPECT_LE(w.broker().BytesKeptFor(1000), Quota::kBytesPerUser + 60 * OpLog::kLeastBytes);
  EXPECT_GE(w.broker().BytesKeptFor(1000), Quota::kBytesPerUser / 2);
  // Another user is not affected.
  w.Resubmit(other, first, ListAdaptersOp{});
  EXPECT_EQ(w.Seen<Complete>().size(), 1u);
  EXPECT_GT(w.broker().BytesKeptFor(2000), 0u);
  for (const World::Client& client : clients) w.Die(client);
  EXPECT_EQ(w.broker().BytesKeptFor(1000), 0u);
}

// The bound of pending operations holds for the user too, because sessions are cheap.
TEST(Pending, OperationsAreLimitedPerUser) {
  World w;
  w.check_always = false;
  const auto up = w.Pair(World::Stage::kConnected);
  std::uint32_t submitted = 0;
  for (; submitted < Quota::kOperationsPerUser; ++submitted) {
    w.Submit(up.a, NotifyDisconnectOp{up.ac});
    if (submitted % 1024 == 0) w.ClearLog();
  }
  const auto again = w.Open(0, 1000);
  EXPECT_EQ(w.Try(again, ListAdaptersOp{}), SC::kInsufficientResources);
  const auto other = w.Open(0, 2000);
  EXPECT_EQ(w.Try(other, ListAdaptersOp{}), SC::kSuccess);
  w.Die(up.a);
  EXPECT_EQ(w.Try(again, ListAdaptersOp{}), SC::kSuccess);
  EXPECT_EQ(w.broker().CheckInvariants(), "");
}

}  // namespace
}  // namespace nd::core
