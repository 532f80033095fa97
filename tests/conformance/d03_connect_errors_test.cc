// SPDX-License-Identifier: Apache-2.0
// d.3 Connect: inline and state errors.
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D03);

TEST_P(D03, ND_061_ConnectUnbound) {
  EXPECT_ND(A.CreateConnector().Connect(A.CreateQp(), w.p(7000)), ADDRESS_NOT_ASSOCIATED);
}

TEST_P(D03, ND_062_ConnectTwice) {
  Link link = w.Queued();
  EXPECT_ND(link.a.Connect(A.CreateQp(), link.to), CONNECTION_ACTIVE);
  EXPECT_PENDING(link.connect);
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D03, ND_063_ConnectAfterReplied) {
  ND_NEEDS_TWO_PHASES("063");
  const Link link = w.Replied();
  EXPECT_ND(link.a.Connect(link.aq, link.to), CONNECTION_ACTIVE);
  EXPECT_ND(link.a.Bind(w.a(6001)), ADDRESS_ALREADY_ASSOCIATED);
  EXPECT_ND(link.a.Reject(), SUCCESS);
  EXPECT_ND(link.accept, CONNECTION_ABORTED);
}

TEST_P(D03, ND_064_QueuePairOfLiveConnection) {
  const Link up = w.Up();
  const Connector second = w.Bound(A, w.a(6000));
  EXPECT_ND(second.Connect(up.aq, up.to), CONNECTION_ACTIVE);
  w.ExpectTraffic(up);
  EXPECT_ND(second.Connect(A.CreateQp(), up.to), INVALID_DEVICE_STATE);
  EXPECT_ND(second.Close(), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
}

TEST_P(D03, ND_065_QueuePairOfPendingConnect) {
  Link link = w.Queued();
  EXPECT_ND(w.BoundA().Connect(link.aq, link.to), CONNECTION_ACTIVE);
  EXPECT_PENDING(link.connect);
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D03, ND_066_QueuePairOfAnotherAdapter) {
  const Object other = A.OpenAdapter(w.other_a());
  ASSERT_ND(other.status(), SUCCESS);
  w.Listening();
  const Connector c = w.BoundA();
  EXPECT_ND(c.Connect(A.CreateQp({}, other.id()), w.p(7000)), INVALID_PARAMETER_1);
  EXPECT_PENDING(c.Connect(A.CreateQp(), w.p(7000)));
}

TEST_P(D03, ND_067_QueuePairOfAnotherClient) {
  RawClient one(w.broker_a().directory()), two(w.broker_a().directory());
  ASSERT_EQ(one.error(), "");
  ASSERT_EQ(two.error(), "");
  const std::string adapter_one = one.Do(OpenText(w))["completion.handle"];
  const std::string adapter_two = two.Do(OpenText(w))["completion.handle"];
  const std::string qp = one.Do("create_queue_pair { adapter: " + adapter_one +
                                " receive_queue_depth: 8 initiator_queue_depth: 8 }")["completion.handle"];
  ASSERT_NE(qp, "");
  const std::string c = two.Do("create_connector { adapter: " + adapter_two + " }")["completion.handle"];
  EXPECT_ND(Status(CodeOf(two.Do("bind { handle: " + c + " local " + TextAddress(w.a(6000)) + " }"))),
            SUCCESS);
  EXPECT_ND(Status(CodeOf(two.Do("connect { connector: " + c + " queue_pair: " + qp + " remote " +
                                 TextAddress(w.p(7000)) + " }"))),
            INVALID_HANDLE);
}

TEST_P(D03, ND_068_PrivateDataTooLong) {
  const std::uint32_t max = A.Info().max_caller_data;
  ASSERT_GT(max, 0u);
  w.Listening();
  const Connector c = w.BoundA();
  const Qp qp = A.CreateQp();
  EXPECT_ND(c.Connect(qp, w.p(7000), {.data = std::string(max + 1, 'x')}), INVALID_BUFFER_SIZE);
  EXPECT_PENDING(c.Connect(qp, w.p(7000), {.data = std::string(max, 'x')}));
}

TEST_P(D03, ND_069_PrivateDataWithoutBuffer) {
  w.Listening();
  const Connector c = w.BoundA();
  const Qp qp = A.CreateQp();
  EXPECT_ND(c.Connect(qp, w.p(7000), {.missing = 10}), ACCESS_VIOLATION);
  EXPECT_PENDING(c.Connect(qp, w.p(7000)));
}

TEST_P(D03, ND_070_MalformedDestination) {
  w.Listening();
  const Connector c = w.BoundA();
  const Qp qp = A.CreateQp();
  EXPECT_ND(c.Connect(qp, Address::FromParts(Address::Family::kIpv4, "\x7f", 7000)), INVALID_ADDRESS);
  EXPECT_ND(c.Connect(qp, Address::FromParts(Address::Family::kOther, "\x7f\0\0\2", 7000)), INVALID_ADDRESS);
  EXPECT_ND(c.Connect(qp, Address()), INVALID_ADDRESS);
  EXPECT_PENDING(c.Connect(qp, w.p(7000)));
}

TEST_P(D03, ND_071_DestinationOfOtherFamily) {
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), World::Ip("fd00::9", 7000)), INVALID_ADDRESS);
}

TEST_P(D03, ND_072_UnspecifiedDestination) {
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), World::Ip("0.0.0.0", 7000)), NETWORK_UNREACHABLE);
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), World::Ip("224.0.0.1", 7000)), NETWORK_UNREACHABLE);
}

TEST_P(D03Own, ND_072_UnspecifiedDestinationBadNetworkName) {
  World w(GetParam(), {.sections = {{"compat", "bad-network-name = true"}}});
  EXPECT_ND(w.BoundA().Connect(w.A().CreateQp(), World::Ip("0.0.0.0", 7000)), BAD_NETWORK_NAME);
}

TEST_P(D03, ND_073_DestinationPortZero) {
  EXPECT_ND(w.BoundA().Connect(A.CreateQp(), w.p(0)), CONNECTION_REFUSED);
}

TEST_P(D03, ND_074_ConnectWhileWaitingForRequest) {
  const Listener l = w.Listening();
  const Connector c = P.CreateConnector();
  const Outcome request = l.GetConnectionRequest(c);
  EXPECT_PENDING(request);
  EXPECT_ND(c.Connect(P.CreateQp(), w.p(7000)), INVALID_DEVICE_STATE);
  EXPECT_PENDING(request);
}

TEST_P(D03, ND_075_ConnectOnDeadConnector) {
  const Link up = w.Up();
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(up.a.Connect(A.CreateQp(), up.to), INVALID_DEVICE_STATE);
}

TEST_P(D03, ND_076_ReceivesSurviveRefusal) {
  const Qp aq = A.CreateQp();
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_ND(aq.Receive(i, i * 4096, 4096), SUCCESS);
  const Connector c = w.BoundA();
  EXPECT_ND(c.Connect(aq, w.p(7000)), CONNECTION_REFUSED);
  EXPECT_TRUE(aq.cq.Poll().empty());
  const Link up = w.Up({.aq = aq, .a = c});
  EXPECT_ND(up.pq.Receive(50), SUCCESS);
  EXPECT_ND(up.aq.Send(51), SUCCESS);
  EXPECT_ND(up.pq.cq.Next(), SUCCESS);
  EXPECT_ND(up.aq.cq.Next(), SUCCESS);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EXPECT_ND(up.pq.Send(60 + i, 0, 100), SUCCESS);
    const Work work = up.aq.cq.Next();
    EXPECT_ND(work, SUCCESS);
    EXPECT_EQ(work.context, i);
    EXPECT_ND(up.pq.cq.Next(), SUCCESS);
  }
}

TEST_P(D03, ND_077_QueuePairClosedDuringConnect) {
  {
    const Link link = w.Queued();
    EXPECT_ND(link.aq.Close(), SUCCESS);
    EXPECT_ND(link.connect, CANCELED);
    EXPECT_ND(link.l.Close(), SUCCESS);
  }
  const Link ndk = w.Queued({.port = 7001});
  const Outcome closing = ndk.aq.NdkClose();
  EXPECT_PENDING(closing);
  EXPECT_PENDING(ndk.connect);
  EXPECT_ND(ndk.a.Close(), SUCCESS);
  EXPECT_ND(ndk.connect, CANCELED);
  EXPECT_ND(closing, SUCCESS);
}

TEST_P(D03Own, ND_078_AdapterDisabledDuringConnect) {
  World w(GetParam());
  const Link link = w.Queued();
  EXPECT_ND(w.broker_a().SetAdapter(w.adapter_a(), false), SUCCESS);
  EXPECT_ND(link.connect, DEVICE_REMOVED);
  EXPECT_ND(link.a.Close(), SUCCESS);
  EXPECT_ND(w.broker_a().SetAdapter(w.adapter_a(), true), SUCCESS);
}

TEST_P(D03Own, ND_079_QuotaOfUser) {
  // One connector beyond the quota cannot be created; a port beyond the quota leaves the connector usable.
  World w(GetParam(), {.sections = {{"core", "max-backlog = 100"}}});
  DaemonOptions limited = w.broker_a().options();
  const DaemonOptions generous = limited;
  limited.rules.insert(limited.rules.begin(),
                       "name = \"small\"\nquota = { ports = 2, connectors = 100000, "
                       "sessions = 1000, queue-pairs = 100000, listeners = 1000, shared-endpoints = 1000 }");
  const Listener l = w.Listening();
  const Connector bound = w.BoundA();
  w.broker_a().Configure(limited);
  ASSERT_ND(w.broker_a().Reload(), SUCCESS);
  const int left = w.local() ? 0 : 1;
  for (int i = 0; i < left; ++i) w.BoundA();
  const Connector c = w.A().CreateConnector();
  const Qp qp = w.A().CreateQp();
  EXPECT_ND(c.NdkConnect(qp, w.a(), w.p(7000)), INSUFFICIENT_RESOURCES);
  EXPECT_ND(c.GetLocalAddress(), CONNECTION_INVALID);  // The connector is unbound, as before.
  EXPECT_ND(w.A().CreateConnector().Bind(w.a()), INSUFFICIENT_RESOURCES);
  EXPECT_ND(bound.GetLocalAddress(), SUCCESS);
  EXPECT_PENDING(bound.Connect(w.A().CreateQp(), w.p(7000)));
  w.broker_a().Configure(generous);
  ASSERT_ND(w.broker_a().Reload(), SUCCESS);
  const Outcome connect = c.NdkConnect(qp, w.a(), w.p(7000));
  EXPECT_PENDING(connect);
  ASSERT_ND(l.GetConnectionRequest(w.P().CreateConnector()), SUCCESS);  // That of `bound`.
  Link link{.l = l,
            .a = c,
            .p = {},
            .aq = qp,
            .pq = w.P().CreateQp(),
            .connect = connect,
            .accept = {},
            .to = w.p(7000)};
  w.Deliver(link);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

TEST_P(D03, ND_080_LimitsAboveCapsAreAccepted) {
  w.Listening();
  const Connector c = w.BoundA();
  EXPECT_PENDING(c.Connect(A.CreateQp(), w.p(7000), {.limits = {1'000'000, 1'000'000}}));
}

}  // namespace
}  // namespace nd::conformance
