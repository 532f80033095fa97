// SPDX-License-Identifier: Apache-2.0
// What the end of an attempt leaves behind: counters, the answer to its other side, the status for its
// client. What news of the administrator and of the provider change.
#include <set>
#include <string>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

// A rejected attempt is over for the provider: its id is not used again.
void ExpectNothingAfterReject(const World& w, int host) {
  std::set<std::uint64_t> rejected;
  for (const CmReject& reject : w.Seen<CmReject>(host))
    rejected.insert(static_cast<std::uint64_t>(reject.id));
  EXPECT_FALSE(rejected.empty());
  for (const CmAbort& abort : w.Seen<CmAbort>(host)) {
    EXPECT_FALSE(rejected.contains(static_cast<std::uint64_t>(abort.id)));
  }
}

// ND_228: an attempt that is given up in whatever way counts once.
TEST(Endings, EachAttemptThatIsGivenUpCountsAsAFailure) {
  const std::vector<void (*)(World&, const World::Up&)> ways = {
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess); },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.a, up.ac, true), SC::kSuccess); },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.a, up.aq), SC::kSuccess); },
      [](World& w, const World::Up& up) { w.Step(0, KillConnection{up.ac}); },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kSuccess); },
      [](World& w, const World::Up&) {
        w.Step(0, SetAdapter{"a0", false});
      },
      [](World& w, const World::Up& up) { w.Step(0, SessionClosed{up.a.session}); },
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnecting);
    for (const char* idle : {"10.0.0.1:6100", "10.0.0.1:6101"}) w.Bound(up.a, idle);  // Not attempts.
    ways[i](w, up);
    EXPECT_EQ(w.broker(0).counters().connect_failure, 1u) << i;
  }
}

TEST(Endings, NothingIsSaidAboutARejectedAttempt) {
  const std::vector<void (*)(World&, const World::Up&)> ways = {
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Try(up.p, RejectOp{up.pc}), SC::kSuccess); },
      [](World& w, const World::Up& up) { w.Step(1, KillConnection{up.pc}); },
      [](World& w, const World::Up&) {
        w.Step(1, SetAdapter{"a0", false});
      },
      [](World& w, const World::Up& up) { EXPECT_EQ(w.Close(up.p, up.pc), SC::kSuccess); },
      [](World& w, const World::Up& up) { w.Step(1, SessionClosed{up.p.session}); },
      [](World& w, const World::Up& up) {  // The queue pair is in another attempt.
        const Handle qp = w.Qp(up.p);
        w.wire_is_cut = true;
        w.Connect(up.p, w.Bound(up.p, "10.0.1.1:6000"), qp, "10.0.1.1:7999");
        w.wire_is_cut = false;
        EXPECT_NE(w.Try(up.p, AcceptOp{up.pc, qp, {}, {}}), SC::kSuccess);
      },
  };
  for (std::size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE(i);
    World w(2);
    const World::Up up = w.Pair(Stage::kIncoming);
    ways[i](w, up);
    ExpectNothingAfterReject(w, 1);
  }
}

// With one place on the wire, the next attempt leaves as soon as the one before it is given up.
TEST(Endings, PlaceOnTheWireIsUsedAgainAtOnce) {
  const std::vector<void (*)(World&, const World::Client&, Handle)> ways = {
      [](World& w, const World::Client&, Handle first) { w.Step(0, KillConnection{first}); },
      [](World& w, const World::Client& a, Handle first) { w.Close(a, first); },
      [](World& w, const World::Client& a, Handle first) { w.Try(a, CancelOp{first}); },
      [](World& w, const World::Client& a, Handle) { w.Step(0, SessionClosed{a.session}); },
  };
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    World w(2, settings);
    const auto a = w.Open(0), b = w.Open(0);
    w.wire_is_cut = true;
    const Handle first = w.Bound(a, "10.0.0.1:6001");
    w.Connect(a, first, w.Qp(a), "10.0.1.1:7000");
    w.Connect(b, w.Bound(b, "10.0.0.1:6002"), w.Qp(b), "10.0.1.1:7000");
    ASSERT_EQ(w.Seen<CmConnect>(0).size(), 1u);
    ways[i](w, a, first);
    EXPECT_EQ(w.Seen<CmConnect>(0).size(), 2u) << i;
  }
}

TEST(Endings, ReplyThatIsKilledCannotBeCompleted) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.Step(0, KillConnection{up.ac});
  const Complete complete = w.Call(up.a, CompleteConnectOp{up.ac, false});
  EXPECT_EQ(complete.status.code(), SC::kConnectionAborted);
  EXPECT_EQ(complete.status.detail(), Detail::kLocalAdministrator);
}

// The end of a reply says nothing about a request.
TEST(Endings, OnlyCompleteConnectSaysWhatEndedAReply) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.Step(0, CmLost{w.broker(0).Connections()[0].cm_id, {SC::kIoTimeout}, {}});
  EXPECT_EQ(w.Try(up.a, AcceptOp{up.ac, w.Qp(up.a), {}, {}}), SC::kConnectionInvalid);
  EXPECT_EQ(w.Try(up.a, RejectOp{up.ac}), SC::kConnectionInvalid);
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kIoTimeout);
}

// The transport of this side took the end of the other one for a goodbye.
TEST(Endings, EndByOrderIsNotAGoodbyeOfThePeer) {
  const auto reason_after = [](const auto& end) {
    World w;
    const auto a = w.Open(), p = w.Open(0, 1000, 0, "a1");
    const Handle listener = w.Listener(p, "10.1.0.1:7000");
    const Handle ac = w.Bound(a, "10.0.0.1:6000");
    w.Connect(a, ac, w.Qp(a), "10.1.0.1:7000");
    const Handle pc = w.Incoming(p, listener);
    w.Submit(p, AcceptOp{pc, w.Qp(p), {1, 1}, {}, 0, false});
    EXPECT_EQ(w.Try(a, CompleteConnectOp{ac, false}), SC::kSuccess);
    w.wire_is_cut = true;  // Only the report below tells this side.
    end(w, a, ac);
    w.Try(p, TransportReportOp{
                 pc, TransportReportOp::What::kPeerClosed, DisconnectReason::kPeerDisconnected, {}});
    EXPECT_EQ(w.State(p, pc), ConnectorState::kPeerClosed);
    return w.Seen<ConnectionRecord>().back().reason;
  };
  EXPECT_EQ(reason_after([](World& w, const World::Client&, Handle ac) { w.Step(0, KillConnection{ac}); }),
            DisconnectReason::kLocalAdministrator);
  EXPECT_EQ(reason_after([](World& w, const World::Client&, Handle) {
              w.Step(0, SetAdapter{"a0", false});
            }),
            DisconnectReason::kAdapterDisabled);
  EXPECT_EQ(
      reason_after([](World& w, const World::Client& a, Handle) { w.Step(0, SessionClosed{a.session}); }),
      DisconnectReason::kPeerDisconnected)
      << "the goodbye may have been said before the session ended";
  EXPECT_EQ(
      reason_after([](World& w, const World::Client& a, Handle ac) {
        w.Try(a,
              TransportReportOp{
                  ac, TransportReportOp::What::kPeerClosed, DisconnectReason::kTransportRetryExceeded, {}});
      }),
      DisconnectReason::kPeerDisconnected)
      << "no order ended the other side";
}

TEST(Endings, RefusalWithoutDataHasNone) {
  const auto data_after = [](Detail detail, const Bytes& data) {
    World w(2);
    const World::Up up = w.Pair(Stage::kConnecting);
    w.Step(0, CmRejected{w.Seen<CmConnect>(0)[0].params.id, {SC::kConnectionRefused, "", detail}, data});
    return w.Try(up.a, GetPrivateDataOp{up.ac});
  };
  EXPECT_EQ(data_after(Detail::kPeerRejected, Data("no")), SC::kSuccess);
  EXPECT_EQ(data_after(Detail::kPeerRejected, {}), SC::kConnectionInvalid);
  EXPECT_EQ(data_after(Detail::kBacklogFull, Data("no")), SC::kConnectionInvalid);
}

// The connector was refused with data before it took a request.
TEST(Endings, DataOfARefusalIsNotThatOfALaterRequest) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnecting);
  const Handle listener = w.Listener(up.a, "10.0.0.2:7100"), used = w.Connector(up.a);
  const Handle waits = w.Incoming(up.p, up.listener);
  EXPECT_EQ(w.Try(up.p, RejectOp{waits, Data("no"), 2}), SC::kSuccess);
  ASSERT_EQ(w.Try(up.a, GetPrivateDataOp{up.ac}), SC::kSuccess);
  ConnectOp op{used, w.Qp(up.a), Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}};
  op.source = Ip("10.0.0.1:0");
  w.Submit(up.a, op);
  EXPECT_EQ(w.Try(up.p, RejectOp{w.Incoming(up.p, up.listener), Data("no"), 2}), SC::kSuccess);
  ASSERT_EQ(w.Try(up.a, GetPrivateDataOp{used}), SC::kSuccess);
  w.Connect(up.p, w.Bound(up.p, "10.0.1.1:6200"), w.Qp(up.p), "10.0.0.2:7100");
  ASSERT_EQ(w.Try(up.a, GetConnectionRequestOp{listener, used}), SC::kSuccess);
  EXPECT_EQ(w.Try(up.a, RejectOp{used}), SC::kSuccess);
  EXPECT_EQ(w.Try(up.a, GetPrivateDataOp{used}), SC::kConnectionInvalid);
}

// The first attempt ended before its client was asked to prepare.
TEST(Endings, NextAttemptIsNotPreparedUnasked) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnecting);
  w.Step(0, CmFailed{w.Seen<CmConnect>(0)[0].params.id, {SC::kIoTimeout}});
  ASSERT_EQ(w.State(up.a, up.ac), ConnectorState::kBound);
  w.wire_is_cut = true;
  w.Connect(up.a, up.ac, up.aq, "10.0.1.1:7000");
  ASSERT_EQ(w.State(up.a, up.ac), ConnectorState::kConnecting);
  w.Try(up.a, TransportReportOp{up.ac, TransportReportOp::What::kPrepared, {}, {}});
  EXPECT_TRUE(w.Seen<CmPrepared>(0).empty());
}

TEST(Endings, PassiveConnectionHoldsTheAddressOfItsListener) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  EXPECT_EQ(w.broker(1).Ports()[0].references, 2u);
  ASSERT_EQ(w.Try(up.p, DisconnectOp{up.pc}), SC::kSuccess);
  ASSERT_EQ(w.State(up.p, up.pc), ConnectorState::kDead);
  EXPECT_EQ(w.Call(up.p, GetLocalAddressOp{up.pc}).reply.address, Ip("10.0.1.1:7000"));
}

TEST(Endings, OneListenerComesBackToThePortOfItsConnections) {
  World w;
  const auto c = w.Open();
  ASSERT_EQ(w.Try(c, w.Returning(c, "10.0.0.1:7000", "10.0.5.1:6000", true)), SC::kSuccess);
  w.Listener(c, "10.0.0.1:7000");
  const Handle second = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  EXPECT_EQ(w.Try(c, BindOp{second, Ip("10.0.0.1:7000")}), SC::kSharingViolation);
}

TEST(Endings, TimeForEstablishmentEndsWithIt) {
  Settings settings;
  settings.establish_timeout = std::chrono::seconds(3);
  World w(2, settings);
  const World::Up up = w.Pair(Stage::kConnected);
  w.Advance(std::chrono::seconds(10));
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnected);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kConnected);
}

TEST(Endings, WithdrawalBringsItsData) {
  for (const bool passive : {false, true}) {
    World w(2);
    const World::Up up = w.Pair(passive ? Stage::kIncoming : Stage::kReplied);
    const int host = passive ? 1 : 0;
    const CmId id = w.broker(host).Connections()[0].cm_id;
    w.Step(host, CmLost{id, {SC::kConnectionAborted, "", Detail::kPeerRejected}, Data("no")});
    const Complete data =
        passive ? w.Call(up.p, GetPrivateDataOp{up.pc}) : w.Call(up.a, GetPrivateDataOp{up.ac});
    EXPECT_EQ(data.status.code(), SC::kSuccess);
    EXPECT_EQ(data.reply.private_data, Data("no"));
    EXPECT_EQ(w.broker(host).counters().connect_failure, passive ? 0u : 1u);
  }
}

// The disconnect of the peer overtakes the confirmation.
TEST(Endings, ConnectionThatEndsBeforeItIsReportedHasBothRecords) {
  World w(2);
  const World::Up up = w.Pair(Stage::kReplied);
  w.wire_is_cut = true;
  const OpId complete = w.Submit(up.a, CompleteConnectOp{up.ac, false});
  w.ClearLog();
  w.Step(0, CmPeerClosed{w.broker(0).Connections()[0].cm_id, DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(w.Code(up.a, complete), SC::kSuccess);
  std::vector<ConnectionRecord::Outcome> outcomes;
  for (const ConnectionRecord& record : w.Seen<ConnectionRecord>(0)) outcomes.push_back(record.outcome);
  EXPECT_EQ(outcomes,
            (std::vector{ConnectionRecord::Outcome::kEstablished, ConnectionRecord::Outcome::kClosed}));
}

TEST(Endings, EachRefusalIsCountedByItsReason) {
  World w(2);
  const auto a = w.Open(0);
  for (std::uint64_t count = 1; count <= 2; ++count) {
    w.Connect(a, w.Bound(a, "10.0.0.1:0"), w.Qp(a), "10.0.1.1:7000");
    const Counters counters = w.broker(1).counters();
    ASSERT_EQ(counters.refusals.size(), 1u);
    EXPECT_EQ(counters.refusals[0].first, Detail::kNoListener);
    EXPECT_EQ(counters.refusals[0].second, count);
    const Counters failures = w.broker(0).counters();
    ASSERT_EQ(failures.failures.size(), 1u);
    EXPECT_EQ(failures.failures[0].first, SC::kConnectionRefused);
    EXPECT_EQ(failures.failures[0].second, count);
  }
}

TEST(Endings, AnswersToAnEndedRequestSayWhatEndedIt) {
  World w(2);
  const World::Up up = w.Pair(Stage::kIncoming);
  w.Step(1, KillConnection{up.pc});
  const Complete reject = w.Call(up.p, RejectOp{up.pc});
  EXPECT_EQ(reject.status.code(), SC::kConnectionAborted);
  EXPECT_EQ(reject.status.detail(), Detail::kLocalAdministrator);
  const Complete accept = w.Call(up.p, AcceptOp{up.pc, w.Qp(up.p), {}, {}});
  EXPECT_EQ(accept.status.code(), SC::kConnectionAborted);
  EXPECT_EQ(accept.status.detail(), Detail::kLocalAdministrator);
}

TEST(Endings, AcceptIsBoundedByTheTimeForEstablishment) {
  Settings settings;
  settings.establish_timeout = std::chrono::seconds(3);
  World w(2, settings);
  const World::Up up = w.Pair(Stage::kIncoming);
  w.wire_is_cut = true;
  const OpId accept = w.Submit(up.p, AcceptOp{up.pc, up.pq, {}, {}});
  ASSERT_EQ(w.Code(up.p, accept), SC::kPending);
  ASSERT_EQ(w.Seen<CmAccept>(1).size(), 1u);
  EXPECT_FALSE(w.Seen<CmAccept>(1)[0].params.extensions) << "this client knows none";
  w.Advance(std::chrono::seconds(4));
  EXPECT_EQ(w.Code(up.p, accept), SC::kIoTimeout);
}

TEST(News, MorePlacesOnTheWireAreUsedAtOnce) {
  Settings settings;
  settings.max_handshakes_in_flight = 1;
  World w(2, settings);
  const auto a = w.Open(0);
  w.wire_is_cut = true;
  for (int i = 0; i < 3; ++i) w.Connect(a, w.Bound(a, "10.0.0.1:0"), w.Qp(a), "10.0.1.1:7000");
  const std::size_t before = w.Seen<CmConnect>(0).size();
  EXPECT_LT(before, 3u);
  settings.max_handshakes_in_flight = 64;
  w.Step(0, SettingsChanged{settings, {}});
  EXPECT_EQ(w.Seen<CmConnect>(0).size(), 3u);
}

// The ports of an address are given least recently used first; news about the adapter does not start that
// again.
TEST(News, NewAddressesOfAnAdapterKeepTheOrderOfPorts) {
  World w;
  const auto c = w.Open();
  const auto bind = [&] { return w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port(); };
  const int first = bind();
  auto adapters = AdaptersOf(w);
  adapters[0].info.addresses.push_back(Ip("10.0.0.77:0"));
  w.Step(0, AdaptersChanged{adapters});
  const int second = bind();
  EXPECT_EQ(second, first == 65535 ? 49152 : first + 1);
}

}  // namespace
}  // namespace nd::core
