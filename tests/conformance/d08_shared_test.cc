// SPDX-License-Identifier: Apache-2.0
// d.8 Shared endpoints.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D08);

// The ConnectShared of A waits at the listener of P on `port`.
Link QueuedShared(World& w, const Endpoint& endpoint, const Listener& l, const Address& to) {
  Link link;
  link.l = l;
  link.to = to;
  link.a = w.A().CreateConnector();
  link.aq = w.A().CreateQp();
  link.pq = w.P().CreateQp();
  link.connect = link.a.ConnectShared(link.aq, endpoint, link.to);
  EXPECT_ND(link.connect.inline_status(), PENDING);
  return link;
}

Link QueuedShared(World& w, const Endpoint& endpoint, const Listener& l, std::uint16_t port) {
  return QueuedShared(w, endpoint, l, w.p(port));
}

Link UpShared(World& w, const Endpoint& endpoint, const Listener& l, const Address& to) {
  Link link = QueuedShared(w, endpoint, l, to);
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  return link;
}
Link UpShared(World& w, const Endpoint& endpoint, const Listener& l, std::uint16_t port) {
  return UpShared(w, endpoint, l, w.p(port));
}

TEST_P(D08, ND_159_Create) {
  const Endpoint fixed = A.CreateSharedEndpoint(w.a(9999));
  ASSERT_ND(fixed.status(), SUCCESS);
  EXPECT_EQ(fixed.GetLocalAddress().value(), w.a(9999));
  const Object::Raw raw = fixed.GetAddressRaw(false, 4);
  EXPECT_ND(raw.status, BUFFER_TOO_SMALL);
  EXPECT_TRUE(raw.untouched());
  const Endpoint any = A.CreateSharedEndpoint(w.a());
  ASSERT_ND(any.status(), SUCCESS);
  EXPECT_GE(any.GetLocalAddress().value().port(), 49152);
}

TEST_P(D08, ND_160_HundredDestinations) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  std::vector<Link> links;
  const int count = Rounds(100, 100, 16);
  // Two hosts for each port: two destinations differ in address or port.
  for (std::uint16_t i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(7100 + i / 2);
    const Address to = i % 2 == 0 ? w.p(port) : w.p_second(port);
    const Listener l = P.CreateListener();
    EXPECT_ND(l.Bind(to), SUCCESS);
    EXPECT_ND(l.Listen(), SUCCESS);
    links.push_back(UpShared(w, e, l, to));
    EXPECT_EQ(links.back().a.GetLocalAddress().value(), w.a(9999));
    EXPECT_EQ(links.back().p.GetPeerAddress().value(), w.a(9999));
  }
  for (const Link& link : links) w.ExpectTraffic(link);
}

TEST_P(D08, ND_161_SameHostOtherPort) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  w.ExpectTraffic(UpShared(w, e, w.Listening(7000), 7000));
  w.ExpectTraffic(UpShared(w, e, w.Listening(7001), 7001));
}

TEST_P(D08, ND_162_SameDestinationTwice) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  const Listener l = w.Listening();
  Link link = QueuedShared(w, e, l, 7000);
  const auto second = [&] { return A.CreateConnector().ConnectShared(A.CreateQp(), e, w.p(7000)); };
  EXPECT_ND(second(), ADDRESS_ALREADY_EXISTS);
  w.Deliver(link);
  w.Reply(link);
  EXPECT_ND(second(), ADDRESS_ALREADY_EXISTS);
  w.Complete(link);
  EXPECT_ND(second(), ADDRESS_ALREADY_EXISTS);
  EXPECT_ND(link.a.Disconnect(), SUCCESS);
  EXPECT_ND(second(), ADDRESS_ALREADY_EXISTS);
  EXPECT_ND(link.a.Close(), SUCCESS);
  EXPECT_ND(link.p.Close(), SUCCESS);
  w.ExpectTraffic(UpShared(w, e, l, 7000));
}

TEST_P(D08, ND_163_RefusalGivesTupleBack) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  const Connector c = A.CreateConnector();
  EXPECT_ND(c.ConnectShared(A.CreateQp(), e, w.p(7000)), CONNECTION_REFUSED);
  const Listener l = w.Listening();
  w.ExpectTraffic(UpShared(w, e, l, 7000));
}

TEST_P(D08, ND_164_SecondEndpoint) {
  A.CreateSharedEndpoint(w.a(9999));
  EXPECT_ND(A.CreateSharedEndpoint(w.a(9999)).status(), SHARING_VIOLATION);
}

TEST_P(D08, ND_165_NdkConnectFromEndpointsPort) {
  A.CreateSharedEndpoint(w.a(9999));
  w.Listening();
  EXPECT_ND(A.CreateConnector().NdkConnect(A.CreateQp(), w.a(9999), w.p(7000)), SHARING_VIOLATION);
}

TEST_P(D08, ND_166_CloseWithLiveConnectors) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  const Link one = UpShared(w, e, w.Listening(7000), 7000), two = UpShared(w, e, w.Listening(7001), 7001);
  const Outcome closing = e.Close();
  EXPECT_PENDING(closing);
  w.ExpectTraffic(one);
  w.ExpectTraffic(two);
  EXPECT_ND(A.CreateSharedEndpoint(w.a(9999)).status(), SHARING_VIOLATION);
  EXPECT_ND(one.a.Close(), SUCCESS);
  EXPECT_PENDING(closing);
  EXPECT_ND(two.a.Close(), SUCCESS);
  EXPECT_ND(closing, SUCCESS);
  EXPECT_ND(A.CreateSharedEndpoint(w.a(9999)).status(), SUCCESS);
}

TEST_P(D08, ND_167_ConnectOnClosingEndpoint) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  UpShared(w, e, w.Listening(7000), 7000);
  w.Listening(7001);
  EXPECT_PENDING(e.Close());
  EXPECT_ND(A.CreateConnector().ConnectShared(A.CreateQp(), e, w.p(7001)), INVALID_HANDLE, SHARING_VIOLATION);
}

TEST_P(D08, ND_168_EndpointTakesNoRequests) {
  P.CreateSharedEndpoint(w.p(9999));
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), w.p(9999)), CONNECTION_REFUSED);
}

TEST_P(D08, ND_169_RejectedAndAborted) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  const Listener l = w.Listening();
  Link link = QueuedShared(w, e, l, 7000);
  w.Deliver(link);
  EXPECT_ND(link.p.Reject("no"), SUCCESS);
  EXPECT_ND(link.connect, CONNECTION_REFUSED);
  EXPECT_EQ(link.a.PrivateData().ok() ? link.a.PrivateData().value() : "none", "no");
  link.aq = w.Again(link.aq);
  link.connect = link.a.ConnectShared(link.aq, e, link.to);
  w.Deliver(link);
  w.Reply(link);
  EXPECT_ND(link.p.Close(), SUCCESS);
  ASSERT_TRUE(Eventually([&] { return w.StateOf(w.broker_a(), w.a(9999)) == "Dead"; }));
  EXPECT_ND(link.a.CompleteConnect(), CONNECTION_ABORTED);
  EXPECT_ND(A.CreateConnector().ConnectShared(A.CreateQp(), e, World::Ip("203.0.113.9", 7000)), w.no_route());
}

TEST_P(D08Own, ND_169_Timeout) {
  ND_NEEDS_WIRE("169");
  World w(GetParam(), {.sections = {{"timeouts", "connect = \"1s\""}}, .wired = true});
  ASSERT_EQ(w.error(), "");
  const Endpoint e = w.A().CreateSharedEndpoint(w.a(9999));
  const Connector c = w.A().CreateConnector();
  const Qp qp = w.A().CreateQp();
  w.wire().SetFilter([](const Frame& frame) { return !frame.transport; });
  EXPECT_ND(c.ConnectShared(qp, e, w.p(7000)).Wait(w.silence(20'000)), IO_TIMEOUT);
  w.wire().Mend();
  EXPECT_ND(c.ConnectShared(qp, e, w.p(7000)), CONNECTION_REFUSED);
  w.ExpectTraffic(UpShared(w, e, w.Listening(), 7000));
}

TEST_P(D08Own, ND_169_Unreachable) {
  ND_NEEDS_WIRE("169");
  World w(GetParam(), {.wired = true});
  ASSERT_EQ(w.error(), "");
  const Endpoint e = w.A().CreateSharedEndpoint(w.a(9999));
  const Connector c = w.A().CreateConnector();
  const Qp qp = w.A().CreateQp();
  // 081: no route, then one.
  if (!w.verbs()) {  // A device would find the host in spite of the missing route.
    ASSERT_EQ(Ip("route del 10.77.0.0/24 dev " + w.wire_a(), w.host_a()), "");
    EXPECT_ND(c.ConnectShared(qp, e, w.p(7000)), NETWORK_UNREACHABLE);
    ASSERT_EQ(Ip("route add 10.77.0.0/24 dev " + w.wire_a() + " src 10.77.0.2", w.host_a()), "");
  }
  // 082: an absent host that appears.
  w.wire().Cut();
  ASSERT_EQ(Ip("neigh flush dev " + w.wire_a(), w.host_a()), "");
  EXPECT_ND(c.ConnectShared(qp, e, w.p(7000)).Wait(milliseconds(20'000)), HOST_UNREACHABLE);
  w.wire().Mend();
  ASSERT_EQ(Ip("neigh flush dev " + w.wire_a(), w.host_a()), "");
  w.ExpectTraffic(UpShared(w, e, w.Listening(), 7000));
}

TEST_P(D08, ND_170_EndpointOfAnotherProcess) {
  // Export is not supported: a handle is valid only in its session.
  RawClient owner(w.broker_a().directory()), thief(w.broker_a().directory());
  const std::string adapter = owner.Do(OpenText(w))["completion.handle"];
  const std::string theirs = thief.Do(OpenText(w))["completion.handle"];
  const std::string endpoint = owner.Do("create_shared_endpoint { adapter: " + adapter + " local " +
                                        TextAddress(w.a(9999)) + " }")["completion.handle"];
  ASSERT_NE(endpoint, "");
  const auto connect = [&](RawClient& client, const std::string& on) {
    const std::string c = client.Do("create_connector { adapter: " + on + " }")["completion.handle"];
    const std::string qp =
        client.Do("create_queue_pair { adapter: " + on +
                  " receive_queue_depth: 8 initiator_queue_depth: 8 }")["completion.handle"];
    return Status(CodeOf(client.Do("connect { connector: " + c + " queue_pair: " + qp + " remote " +
                                   TextAddress(w.p(7000)) + " shared_endpoint: " + endpoint + " }")));
  };
  EXPECT_ND(connect(thief, theirs), INVALID_HANDLE);
  // The same request from the owner's session finds the endpoint, and then no listener.
  if (!w.verbs()) {  // On devices a Connect needs a queue pair of the device.
    EXPECT_ND(connect(owner, adapter), CONNECTION_REFUSED);
  }
}

TEST_P(D08, ND_171_OwnerDies) {
  // Without export every connector of an endpoint belongs to its owner, so they end together.
  Actor& owner = w.Extra();
  ASSERT_ND(owner.Open(), SUCCESS);
  const Endpoint e = owner.CreateSharedEndpoint(w.a(9999));
  ASSERT_ND(e.status(), SUCCESS);
  const Listener l = w.Listening();
  const Connector a = owner.CreateConnector(), p = P.CreateConnector();
  const Outcome connect = a.ConnectShared(owner.CreateQp(), e, w.p(7000));
  ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
  const Outcome accept = p.Accept(P.CreateQp());
  EXPECT_ND(connect, SUCCESS);
  EXPECT_ND(a.CompleteConnect(), SUCCESS);
  EXPECT_ND(accept, SUCCESS);
  const Outcome notify = p.NotifyDisconnect();
  owner.Kill();
  EXPECT_ND(notify, SUCCESS);
  EXPECT_TRUE(
      Eventually([&] { return A.CreateSharedEndpoint(w.a(9999)).status().ok(); }, milliseconds(1000)));
}

TEST_P(D08, ND_172_UnspecifiedAddress) {
  EXPECT_ND(A.CreateSharedEndpoint(World::Ip("0.0.0.0", 9999)).status(), INVALID_ADDRESS);
}

TEST_P(D08, ND_173_OtherFamily) {
  const Endpoint e = A.CreateSharedEndpoint(w.a(9999));
  EXPECT_ND(A.CreateConnector().ConnectShared(A.CreateQp(), e, World::Ip("fd00::9", 7000)), INVALID_ADDRESS,
            NETWORK_UNREACHABLE);
  w.ExpectTraffic(UpShared(w, e, w.Listening(), 7000));
}

}  // namespace
}  // namespace nd::conformance
