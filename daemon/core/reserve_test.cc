// SPDX-License-Identifier: Apache-2.0
// Reservations of the administrator, and draining.
#include <algorithm>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using Stage = World::Stage;

std::vector<PortRow> Reservations(const World& w) {
  std::vector<PortRow> rows = w.broker().Ports();
  std::erase_if(rows, [](const PortRow& row) { return row.kind != "reservation"; });
  return rows;
}

TEST(Reserve, KeepsAPortFromEveryUser) {
  World w;
  const World::Client c = w.Open();
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), {}, "for the upgrade"});
  const Handle connector = w.Connector(c);
  const Complete taken = w.Call(c, BindOp{connector, Ip("10.0.0.1:7000")});
  EXPECT_EQ(taken.status.code(), StatusCode::kSharingViolation);
  EXPECT_NE(taken.status.message().find("reserved by the administrator: for the upgrade"), std::string::npos)
      << taken.status.message();
  EXPECT_EQ(w.Try(c, CreateSharedEndpointOp{c.adapter, Ip("10.0.0.1:7000")}), StatusCode::kSharingViolation);
  const Handle listener = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  EXPECT_EQ(w.Try(c, BindOp{listener, Ip("0.0.0.0:7000")}), StatusCode::kSharingViolation) << "covers it";
  EXPECT_EQ(w.Try(c, BindOp{connector, Ip("10.0.0.2:7000")}), StatusCode::kSuccess) << "another address";

  ASSERT_EQ(Reservations(w).size(), 1u);
  const PortRow row = Reservations(w)[0];
  EXPECT_EQ(row.local, Ip("10.0.0.1:7000"));
  EXPECT_EQ(row.adapter, "a0");
  EXPECT_EQ(row.state, "reserved");
  EXPECT_EQ(row.comment, "for the upgrade");
  EXPECT_FALSE(row.owner.has_value());

  w.Step(0, ReleasePort{Ip("10.0.0.1:7000")});
  EXPECT_TRUE(Reservations(w).empty());
  EXPECT_EQ(w.Try(c, BindOp{w.Connector(c), Ip("10.0.0.1:7000")}), StatusCode::kSuccess);
}

TEST(Reserve, OneUserMayTakeItAndItStaysReservedAfterwards) {
  World w;
  const World::Client owner = w.Open(0, 1000), other = w.Open(0, 1001);
  w.Step(0, ReservePort{Ip("0.0.0.0:7000"), 1000, ""});
  EXPECT_EQ(w.Try(other, BindOp{w.Connector(other), Ip("10.0.0.1:7000")}), StatusCode::kSharingViolation);
  const Handle mine = w.Bound(owner, "10.0.0.1:7000");
  w.Close(owner, mine);
  EXPECT_EQ(w.Try(other, BindOp{w.Connector(other), Ip("10.0.0.1:7000")}), StatusCode::kSharingViolation);
  ASSERT_TRUE(Reservations(w)[0].owner.has_value());
  EXPECT_EQ(Reservations(w)[0].owner->uid, 1000u);
}

TEST(Reserve, HeldPortIsRefusedWithItsHolder) {
  World w;
  const World::Client c = w.Open(0, 1000, 4711);
  w.Listener(c, "10.0.0.1:7000");
  for (const char* local : {"10.0.0.1:7000", "0.0.0.0:7000"}) {
    const Status held = w.broker().CheckReserve(Ip(local));
    EXPECT_EQ(held.code(), StatusCode::kSharingViolation) << local;
    EXPECT_NE(held.message().find("held by a listener on 10.0.0.1:7000 of process 4711"), std::string::npos)
        << held.message();
    w.Step(0, ReservePort{Ip(local), 1000, ""});
  }
  EXPECT_TRUE(Reservations(w).empty());
  w.Step(0, ReservePort{Ip("10.0.0.1:7001"), {}, "a"});
  EXPECT_EQ(w.broker().CheckReserve(Ip("0.0.0.0:7001")).code(), StatusCode::kSharingViolation);
}

TEST(Reserve, ChecksItsArguments) {
  World w;
  EXPECT_EQ(w.broker().CheckReserve(Ip("10.0.0.1:0")).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(w.broker().CheckReserve(Address()).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(w.broker().CheckReserve(Ip("9.9.9.9:7000")).code(), StatusCode::kInvalidAddress);
  EXPECT_EQ(w.broker().CheckRelease(Ip("10.0.0.1:7000")).code(), StatusCode::kInvalidHandle);
  w.Step(0, ReservePort{Ip("0.0.0.0:7000"), {}, ""});
  EXPECT_EQ(Reservations(w).size(), 2u) << "one on each adapter";
  EXPECT_EQ(w.broker().CheckRelease(Ip("10.0.0.1:7000")).code(), StatusCode::kInvalidHandle)
      << "not this key";
  EXPECT_TRUE(w.broker().CheckRelease(Ip("0.0.0.0:7000")).ok());
}

TEST(Reserve, EphemeralPortsAreChosenAroundIt) {
  Settings settings;
  settings.ephemeral_first = 50000;
  settings.ephemeral_last = 50002;
  World w(1, settings);
  const World::Client c = w.Open();
  w.Step(0, ReservePort{Ip("10.0.0.1:50001"), 1000, ""});
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < 2; ++i) {
    ports.push_back(w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port());
  }
  std::sort(ports.begin(), ports.end());
  EXPECT_EQ(ports, (std::vector<std::uint16_t>{50000, 50002}));
  EXPECT_EQ(w.Try(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}), StatusCode::kTooManyAddresses);
  w.Step(0, ReservePort{Ip("10.0.0.2:50000"), {}, ""});  // Also in an existing pool.
  w.Step(0, ReleasePort{Ip("10.0.0.1:50001")});
  EXPECT_EQ(w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port(), 50001);
}

TEST(Reserve, ReservedPortIsNotChosenAsEphemeral) {
  Settings settings;
  settings.ephemeral_first = 50000;
  settings.ephemeral_last = 50001;
  for (const char* reserved : {"10.0.0.1", "0.0.0.0"}) {
    World w(1, settings);
    const World::Client c = w.Open();
    const Address first = w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address;
    const std::uint16_t other = first.port() == 50000 ? 50001 : 50000;
    w.Step(0, ReservePort{Ip(reserved).WithPort(other), 1000, ""});
    EXPECT_EQ(w.Try(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}), StatusCode::kTooManyAddresses) << reserved;
    w.Step(0, ReleasePort{Ip(reserved).WithPort(other)});
    EXPECT_EQ(w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port(), other) << reserved;
  }
}

TEST(Reserve, EndsWithItsAdapterAndSurvivesSettings) {
  World w;
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), {}, ""});
  w.Step(0, SettingsChanged{Settings{}, Policy{}});
  EXPECT_EQ(Reservations(w).size(), 1u);
  w.Step(0, AdaptersChanged{{w.broker().Adapters()[1].description}});
  EXPECT_TRUE(Reservations(w).empty());
}

using Ports = std::vector<std::string>;

// The answers to ReservePort, in order.
std::vector<Status> Answers(const World& w) {
  std::vector<Status> answers;
  for (const ReserveDone& done : w.Seen<ReserveDone>()) answers.push_back(done.status);
  return answers;
}

TEST(Reserve, RefusalOfTheHostIsTheAnswer) {
  World w;
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), {}, "", 1});
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), {}, "", 2});
  w.Step(0, ReservePort{Ip("9.9.9.9:7000"), {}, "", 3});
  ASSERT_EQ(w.Seen<ReserveDone>().size(), 3u);
  EXPECT_EQ(w.Seen<ReserveDone>()[2].request, 3u);
  EXPECT_TRUE(Answers(w)[0].ok()) << "ports of its own: nobody is asked";
  EXPECT_EQ(Answers(w)[1].code(), StatusCode::kSharingViolation);
  EXPECT_EQ(Answers(w)[2].code(), StatusCode::kInvalidAddress);
  EXPECT_TRUE(w.HostPorts().empty());

  w.KeepPorts();
  w.reserve_answers[7001] = StatusCode::kSharingViolation;
  w.Step(0, ReservePort{Ip("10.0.0.1:7001"), {}, ""});
  EXPECT_EQ(Answers(w)[3].code(), StatusCode::kSharingViolation);
  EXPECT_EQ(Answers(w)[3].message(), "host");
  EXPECT_EQ(Reservations(w).size(), 1u) << "the first one only";
  EXPECT_EQ(w.HostPorts(), (Ports{"+10.0.0.1:7001"})) << "what was refused is not given back";
  w.Step(0, ReservePort{Ip("10.0.0.1:7002"), {}, ""});
  EXPECT_TRUE(Answers(w)[4].ok());
  w.Step(0, ReleasePort{Ip("10.0.0.1:7002")});
  w.Step(0, ReservePort{Ip("0.0.0.0:7003"), {}, ""});
  EXPECT_EQ(Reservations(w).size(), 3u) << "one on each adapter, of which one has ports of the host";
  w.Step(0, AdaptersChanged{{w.broker().Adapters()[1].description}});
  EXPECT_EQ(w.HostPorts(),
            (Ports{"+10.0.0.1:7001", "+10.0.0.1:7002", "-10.0.0.1:7002", "+0.0.0.0:7003", "-0.0.0.0:7003"}));
}

TEST(Reserve, HostPortIsNeverFreeWhileItsUserChanges) {
  World w;
  w.KeepPorts();
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), 1000, ""});
  const World::Client owner = w.Open(0, 1000);
  const Handle bound = w.Bound(owner, "10.0.0.1:7000");
  w.Close(owner, bound);
  const Handle wide = w.Listener(owner, "0.0.0.0:7000");
  w.Step(0, ReleasePort{Ip("10.0.0.1:7000")});
  w.Close(owner, wide);
  EXPECT_EQ(w.HostPorts(), (Ports{"+10.0.0.1:7000", "+10.0.0.1:7000", "-10.0.0.1:7000", "+0.0.0.0:7000",
                                  "-10.0.0.1:7000", "-0.0.0.0:7000"}));
}

TEST(Reserve, EndsBeforeTheHostHasAnswered) {
  World w;
  w.KeepPorts();
  w.answer_reserves = false;
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), {}, "", 1});
  w.Step(0, ReservePort{Ip("10.0.0.2:7001"), {}, "", 2});
  EXPECT_TRUE(Answers(w).empty());
  const World::Client c = w.Open();
  EXPECT_EQ(w.Try(c, BindOp{w.Connector(c), Ip("10.0.0.1:7000")}), StatusCode::kSharingViolation);
  w.Step(0, ReleasePort{Ip("10.0.0.1:7000")});
  ASSERT_EQ(Answers(w).size(), 1u);
  EXPECT_EQ(Answers(w)[0].code(), StatusCode::kCanceled);
  w.Step(0, CmReserved{w.Seen<CmReserve>()[0].endpoint, {}});  // Too late.
  EXPECT_EQ(w.HostPorts(), (Ports{"+10.0.0.1:7000", "+10.0.0.2:7001", "-10.0.0.1:7000"}));
  w.Step(0, Stopping{});
  ASSERT_EQ(Answers(w).size(), 2u);
  EXPECT_EQ(w.Seen<ReserveDone>()[1].request, 2u);
  EXPECT_EQ(Answers(w)[1].code(), StatusCode::kCanceled);
}

TEST(Drain, RefusesNewWorkAndKeepsExistingConnections) {
  World w(2);
  World::Up up = w.Pair(Stage::kConnected);
  const Handle waiting = w.Bound(up.a, "10.0.0.1:6001"), qp = w.Qp(up.a);
  const OpId queued = w.Connect(up.a, waiting, qp, "10.0.1.1:7000");
  w.Step(1, SetDraining{true});
  EXPECT_TRUE(w.broker(1).draining());

  // Waiting requests continue, and the established connection works.
  const Handle pc = w.Incoming(up.p, up.listener);
  w.Submit(up.p, AcceptOp{pc, w.Qp(up.p), {1, 1}, {}, 0, false});
  EXPECT_EQ(w.Code(up.a, queued), StatusCode::kSuccess);
  EXPECT_EQ(w.Try(up.a, CompleteConnectOp{waiting, false}), StatusCode::kSuccess);
  EXPECT_EQ(w.broker(1).counters().active_connection, 2u);

  // A request of a peer.
  const Handle late = w.Bound(up.a, "10.0.0.1:6002");
  const Complete refused = w.Result(up.a, w.Connect(up.a, late, w.Qp(up.a), "10.0.1.1:7000"));
  EXPECT_EQ(refused.status.code(), StatusCode::kConnectionRefused);
  EXPECT_EQ(refused.status.detail(), Detail::kPaused);
  // A connect and a listener of its own.
  const Handle own = w.Bound(up.p, "10.0.1.1:6100");
  const Complete connect = w.Result(up.p, w.Connect(up.p, own, w.Qp(up.p), "10.0.1.1:7000"));
  EXPECT_EQ(connect.status.code(), StatusCode::kDeviceNotReady);
  EXPECT_NE(connect.status.message().find("draining"), std::string::npos);
  EXPECT_EQ(w.State(up.p, own), ConnectorState::kBound) << "nothing changed";
  const Handle listener = w.Call(up.p, CreateListenerOp{up.p.adapter}).reply.handle;
  ASSERT_EQ(w.Try(up.p, BindOp{listener, Ip("10.0.1.1:7001")}), StatusCode::kSuccess);
  EXPECT_EQ(w.Try(up.p, ListenOp{listener, 0, {}, false}), StatusCode::kDeviceNotReady);
  // A session.
  w.Step(1, SessionOpened{SessionId{999}, Identity{}});
  ASSERT_FALSE(w.Seen<EndSession>(1).empty());
  EXPECT_EQ(w.Seen<EndSession>(1).back().why.code(), StatusCode::kDeviceNotReady);
  EXPECT_NE(w.Seen<EndSession>(1).back().why.message().find("draining"), std::string::npos);

  w.Step(1, SettingsChanged{Settings{}, Policy{}});
  EXPECT_TRUE(w.broker(1).draining()) << "a reload does not end it";
  w.Step(1, SetDraining{false});
  EXPECT_EQ(w.Try(up.p, ListenOp{listener, 0, {}, false}), StatusCode::kSuccess);
}

// A wildcard concerns both adapters; the host refuses the port of one.
TEST(Reserve, RefusedReservationLeavesNothingOnOtherAdapters) {
  World w;
  w.KeepPorts();
  w.reserve_answers[7000] = StatusCode::kSharingViolation;
  w.Step(0, ReservePort{Ip("0.0.0.0:7000"), {}, "", 1});
  ASSERT_EQ(w.Seen<ReserveDone>().size(), 1u);
  EXPECT_FALSE(w.Seen<ReserveDone>()[0].status.ok());
  EXPECT_TRUE(w.broker().Ports().empty());
}

TEST(Reserve, ReleaseIsReported) {
  World w;
  w.Step(0, ReservePort{Ip("10.0.0.1:7000"), {}, "", 1});
  w.Step(0, ReleasePort{Ip("10.0.0.1:7000")});
  EXPECT_EQ(w.Seen<Notice>().back().type, "port.released");
  EXPECT_TRUE(w.broker().Ports().empty());
}

}  // namespace
}  // namespace nd::core
