// SPDX-License-Identifier: Apache-2.0
// d.4 Connect: network outcomes.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/conformance/iwarp_peer.h"
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D04);

// 228: each of these failures raises the counter of A's broker by one.
std::uint64_t Failures(World& w) {
  return w.Counter(w.broker_a(), "connect_failure");
}

TEST_P(D04Own, ND_081_NoRoute) {
  ND_NEEDS_WIRE("081");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  ASSERT_EQ(Ip("addr add 10.88.0.3/32 dev lo", w.host_p()), "");
  const Listener l = w.Listening();
  const Connector c = w.BoundA();
  const Qp qp = w.A().CreateQp();
  std::uint64_t failures = Failures(w);
  EXPECT_ND(c.Connect(qp, World::Ip("203.0.113.9", 7000)), w.no_route());
  EXPECT_EQ(Failures(w), ++failures);
  if (!w.verbs()) {  // A device would find the host in spite of the missing route.
    ASSERT_EQ(Ip("route del 10.77.0.0/24 dev " + w.wire_a(), w.host_a()), "");
    EXPECT_ND(c.Connect(qp, w.p(7000)), NETWORK_UNREACHABLE);
    EXPECT_EQ(Failures(w), ++failures);
    ASSERT_EQ(Ip("route add 10.77.0.0/24 dev " + w.wire_a() + " src 10.77.0.2", w.host_a()), "");
  }
  Link link{.l = l,
            .a = c,
            .p = {},
            .aq = qp,
            .pq = w.P().CreateQp(),
            .connect = c.Connect(qp, w.p(7000)),
            .accept = {},
            .to = w.p(7000)};
  EXPECT_ND(link.connect.inline_status(), PENDING);
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D04Own, ND_082_AbsentHost) {
  ND_NEEDS_WIRE("082");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  w.wire().Cut();
  // The kernel has no neighbour entry for the host.
  ASSERT_EQ(Ip("neigh flush dev " + w.wire_a(), w.host_a()), "");
  const Connector c = w.BoundA();
  const Qp qp = w.A().CreateQp();
  const std::uint64_t failures = Failures(w);
  EXPECT_ND(c.Connect(qp, w.p(7000)).Wait(milliseconds(20'000)), HOST_UNREACHABLE);
  EXPECT_EQ(Failures(w), failures + 1);
  w.wire().Mend();
  ASSERT_EQ(Ip("neigh flush dev " + w.wire_a(), w.host_a()),
            "");  // The kernel forgets that the host is absent.
  w.ExpectTraffic(w.Up({.aq = qp, .a = c}));
}

TEST_P(D04Own, ND_083_SilentPeer) {
  ND_NEEDS_WIRE("083");
  World w(GetParam(), {.sections = {{"timeouts", "connect = \"1s\""}}, .wired = true});
  ASSERT_EQ(w.error(), "");
  w.wire().SetFilter([](const Frame& frame) { return !frame.transport; });
  const Connector c = w.BoundA();
  const Qp qp = w.A().CreateQp();
  const std::uint64_t failures = Failures(w);
  EXPECT_ND(c.Connect(qp, w.p(7000)).Wait(w.silence(20'000)), IO_TIMEOUT);
  EXPECT_EQ(Failures(w), failures + 1);
  w.wire().Mend();
  w.ExpectTraffic(w.Up({.aq = qp, .a = c}));
}

TEST_P(D04, ND_084_RejectedThenAccepted) {
  Link link = w.Incoming();
  EXPECT_ND(link.p.Reject(), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
  w.ExpectTraffic(w.Up({.aq = w.Again(link.aq), .a = link.a, .l = link.l}));
}

TEST_P(D04, ND_085_TenRejectionsThenAccepted) {
  const Listener l = w.Listening();
  const Connector c = w.BoundA();
  Qp qp = A.CreateQp();
  const Address local = c.GetLocalAddress().value();
  for (int i = 0; i < 10; ++i) {
    Link link = w.Incoming({.aq = qp, .a = c, .l = l});
    EXPECT_EQ(link.p.GetPeerAddress().value(), local);
    EXPECT_ND(link.p.Reject(), SUCCESS);
    EXPECT_ND(link.connect, CONNECTION_REFUSED);
    EXPECT_EQ(c.GetLocalAddress().value(), local);
    qp = w.Again(qp);
  }
  const Link up = w.Up({.aq = qp, .a = c, .l = l});
  EXPECT_EQ(up.p.GetPeerAddress().value(), local);
  w.ExpectTraffic(up);
}

TEST_P(D04, ND_086_NdkRetryFromSamePort) {
  const Connector c = A.CreateConnector();
  const Qp qp = A.CreateQp();
  EXPECT_ND(c.NdkConnect(qp, w.a(6000), w.p(7000)), CONNECTION_REFUSED);
  Link link{.l = w.Listening(),
            .a = c,
            .p = {},
            .aq = qp,
            .pq = P.CreateQp(),
            .connect = {},
            .accept = {},
            .to = w.p(7000)};
  link.connect = c.NdkConnect(qp, w.a(6000), w.p(7000));
  EXPECT_ND(link.connect.inline_status(), PENDING);
  w.Deliver(link);
  EXPECT_ND(link.p.Reject(), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
  link.aq = w.Again(qp);
  link.connect = c.NdkConnect(link.aq, w.a(6000), w.p(7000));
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  EXPECT_EQ(link.p.GetPeerAddress().value(), w.a(6000));
  w.ExpectTraffic(link);
}

TEST_P(D04, ND_087_RetryToAnotherDestination) {
  const Connector c = w.BoundA();
  const Qp qp = A.CreateQp();
  EXPECT_ND(c.Connect(qp, w.p(7001)), CONNECTION_REFUSED);
  w.ExpectTraffic(w.Up({.aq = qp, .a = c}));
}

TEST_P(D04Own, ND_088_RequestLostTwice) {
  ND_NEEDS_WIRE("088");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  std::atomic<int> lost{0};
  w.wire().SetFilter(
      [&](const Frame& f) { return !(f.transport && f.from == 0 && f.payload > 0 && lost < 2 && ++lost); });
  Link link = w.Incoming();
  EXPECT_EQ(lost, 2);
  const Outcome second = link.l.GetConnectionRequest(w.P().CreateConnector());
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
  EXPECT_PENDING(second);
}

TEST_P(D04Own, ND_089_ReplyLostTwice) {
  ND_NEEDS_WIRE("089");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  Link link = w.Incoming();
  std::atomic<int> lost{0};
  w.wire().SetFilter(
      [&](const Frame& f) { return !(f.transport && f.from == 1 && f.payload > 0 && lost < 2 && ++lost); });
  w.Reply(link);
  EXPECT_EQ(lost, 2);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D04Own, ND_090_ConfirmationLost) {
  ND_NEEDS_WIRE("090");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  const Link link = w.Replied({.posted_receives = 1});
  std::atomic<int> lost{0};
  w.wire().SetFilter(
      [&](const Frame& f) { return !(f.transport && f.from == 0 && f.payload > 0 && ++lost); });
  EXPECT_ND(link.a.CompleteConnect(), SUCCESS);
  EXPECT_TRUE(Eventually([&] { return lost >= 1; }));
  EXPECT_PENDING(link.accept);
  EXPECT_ND(link.aq.Send(9, 0, 100), SUCCESS);
  w.wire().Mend();
  EXPECT_ND(link.accept, SUCCESS);
  EXPECT_ND(link.pq.cq.Next(), SUCCESS);
  EXPECT_ND(link.aq.cq.Next(), SUCCESS);
}

TEST_P(D04Own, ND_091_PeersBrokerDies) {
  World w(GetParam());
  const Link link = w.Queued();
  ASSERT_TRUE(
      Eventually([&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used") == 1; }));
  w.broker_p().Kill();
  // On one host the broker of the peer is that of A (223).
  if (w.local()) {
    EXPECT_ND(link.connect, DEVICE_REMOVED);
  } else if (w.verbs()) {
    EXPECT_ND(link.connect, CONNECTION_REFUSED);  // By the kernel, which cleans up after the broker.
  } else {
    EXPECT_ND(link.connect, IO_TIMEOUT, HOST_UNREACHABLE);
  }
  w.broker_p().Start();
}

TEST_P(D04, ND_092_StaleAssociation) {
  ND_EXCEPTED()
      << "EXCEPTED 092: no peer calls a queue pair number stale that the public API could use twice";
}

TEST_P(D04, ND_093_RefusalsTellWhy) {
  const Qp qp = A.CreateQp();
  const Connector c = w.BoundA();
  const auto detail = [&] {
    const Status status = c.Connect(qp, w.p(7000)).Wait();
    EXPECT_ND(status, CONNECTION_REFUSED);
    return status.detail();
  };
  EXPECT_EQ(detail(), Detail::kNoListener);
  const Listener l = w.Listening(7000, 1);
  EXPECT_ND(l.ControlConnectEvents(true), SUCCESS);
  EXPECT_EQ(detail(), Detail::kPaused);
  EXPECT_ND(l.ControlConnectEvents(false), SUCCESS);
  const Link first = w.Queued({.l = l});
  ASSERT_TRUE(
      Eventually([&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used") == 1; }));
  EXPECT_EQ(detail(), Detail::kBacklogFull);
  const Connector p = P.CreateConnector();
  ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
  EXPECT_ND(p.Reject(), SUCCESS);
  EXPECT_ND(first.connect, CONNECTION_REFUSED);
  EXPECT_EQ(first.connect.Wait().detail(), Detail::kPeerRejected);
}

// Foreign peers do not know our header, so the adapters of both brokers are in tcp mode.
TEST_P(D04Own, ND_094_ForeignServerRejects) {
  if (GetParam() == Transport::kVerbs)
    ND_EXCEPTED() << "EXCEPTED 094: the foreign peers of devices are rdma_cm programs, see tests/vm";
  World w(GetParam(), {.adapter = "mode = \"tcp\""});
  const UniqueFd server = ListenerAt(World::Ip("127.0.0.99", 7500));
  ASSERT_TRUE(server);
  const Connector c = w.BoundA();
  const Qp qp = w.A().CreateQp();
  const Outcome connect = c.Connect(qp, World::Ip("127.0.0.99", 7500), {.data = "hello"});
  EXPECT_ND(connect.inline_status(), PENDING);
  IwarpPeer peer = IwarpPeer::AcceptFrom(server);
  ASSERT_TRUE(peer.ok());
  const std::optional<MpaFrame> request = peer.ReceiveMpa();
  ASSERT_TRUE(request.has_value());
  EXPECT_FALSE(request->reply);
  EXPECT_EQ(request->private_data, "hello");
  EXPECT_TRUE(peer.SendMpa(true, static_cast<std::uint8_t>(0x20 | (request->flags & 0x40)), request->revision,
                           "go away"));
  peer.Close();
  EXPECT_ND(connect, CONNECTION_REFUSED);
  EXPECT_EQ(c.PrivateData().value(), "go away");
}

TEST_P(D04Own, ND_095_ForeignClientConnects) {
  if (GetParam() == Transport::kVerbs)
    ND_EXCEPTED() << "EXCEPTED 095: the foreign peers of devices are rdma_cm programs, see tests/vm";
  World w(GetParam(), {.adapter = "mode = \"tcp\""});
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}}) {
    const Listener l = w.Listening();
    IwarpPeer peer = IwarpPeer::Dial(w.p(7000));
    ASSERT_TRUE(peer.ok());
    ASSERT_TRUE(peer.SendMpa(false, 0x40, revision, "foreign"));
    const Connector p = w.P().CreateConnector();
    ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
    EXPECT_EQ(p.PrivateData().value(), "foreign");
    const Qp qp = w.P().CreateQp();
    EXPECT_ND(qp.Receive(1, 4096, 4096), SUCCESS);
    const Outcome accept = p.Accept(qp, {.data = "welcome"});
    const std::optional<MpaFrame> reply = peer.ReceiveMpa();
    ASSERT_TRUE(reply.has_value());
    EXPECT_TRUE(reply->reply);
    EXPECT_EQ(reply->flags & 0x20, 0);
    EXPECT_EQ(reply->revision, revision);
    EXPECT_EQ(reply->private_data, "welcome");
    EXPECT_TRUE(peer.SendMessage("from abroad"));
    EXPECT_ND(accept, SUCCESS);
    const Work work = qp.cq.Next();
    EXPECT_ND(work, SUCCESS);
    EXPECT_EQ(work.bytes, 11u);
    EXPECT_EQ(w.P().Scratch().Peek(4096, 11), "from abroad");
    w.P().Scratch().Poke(0, "and back");
    EXPECT_ND(qp.Send(2, 0, 8), SUCCESS);
    EXPECT_EQ(peer.ReceiveMessage().value_or("nothing"), "and back");
    EXPECT_ND(qp.cq.Next(), SUCCESS);
    const Outcome notify = p.NotifyDisconnect();
    peer.Close();
    EXPECT_ND(notify, SUCCESS);
    EXPECT_ND(p.Close(), SUCCESS);
    EXPECT_ND(l.Close(), SUCCESS);
  }
}

// The request waits at a listener whose application does not ask for it, so that nobody answers in between.
TEST_P(D04Own, ND_095_ForeignClientThatSendsBeforeTheAnswer) {
  if (GetParam() == Transport::kVerbs)
    ND_EXCEPTED() << "EXCEPTED 095: the foreign peers of devices are rdma_cm programs, see tests/vm";
  World w(GetParam(), {.adapter = "mode = \"tcp\""});
  const Listener l = w.Listening();
  IwarpPeer hasty = IwarpPeer::Dial(w.p(7000));
  ASSERT_TRUE(hasty.SendMpa(false, 0x40, 2, "hasty"));
  ASSERT_TRUE(
      Eventually([&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used") == 1; }));
  ASSERT_TRUE(hasty.SendMessage("data"));
  EXPECT_TRUE(hasty.ClosedByPeer());
  IwarpPeer patient = IwarpPeer::Dial(w.p(7000));
  ASSERT_TRUE(patient.SendMpa(false, 0x40, 2, "patient"));
  const Connector p = w.P().CreateConnector();
  ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
  EXPECT_EQ(p.PrivateData().value(), "patient");
}

// A request has five seconds, however many bytes of it arrive meanwhile.
TEST_P(D04Own, ND_095_ForeignClientThatIsSlow) {
  if (GetParam() == Transport::kVerbs)
    ND_EXCEPTED() << "EXCEPTED 095: the foreign peers of devices are rdma_cm programs, see tests/vm";
  World w(GetParam(), {.adapter = "mode = \"tcp\""});
  const Listener l = w.Listening();
  IwarpPeer peer = IwarpPeer::Dial(w.p(7000));
  const std::string key = "MPA ID Req Frame";
  for (int second = 0; second < 4; ++second) {
    ASSERT_TRUE(peer.SendRaw(key.substr(static_cast<std::size_t>(second), 1))) << second;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // The broker has looked at the byte.
    EXPECT_ND(w.broker_p().SkipTime(std::chrono::seconds(1)), SUCCESS);
  }
  ASSERT_TRUE(peer.SendRaw(key.substr(4, 1)));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_ND(w.broker_p().SkipTime(std::chrono::milliseconds(1500)), SUCCESS);
  const auto skipped = std::chrono::steady_clock::now();
  EXPECT_TRUE(peer.ClosedByPeer());
  EXPECT_LT(std::chrono::steady_clock::now() - skipped, std::chrono::seconds(3));
}

TEST_P(D04Own, ND_096_IncomingHeldForFiveMinutes) {
  World w(GetParam());
  Link link = w.Incoming();
  for (int minute = 0; minute < 5; ++minute) {
    EXPECT_ND(w.broker_a().SkipTime(std::chrono::minutes(1)), SUCCESS);
    if (!w.local()) {
      EXPECT_ND(w.broker_p().SkipTime(std::chrono::minutes(1)), SUCCESS);
    }
    EXPECT_PENDING(link.connect);
  }
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

}  // namespace
}  // namespace nd::conformance
