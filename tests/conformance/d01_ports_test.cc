// SPDX-License-Identifier: Apache-2.0
// d.1 Address and port space.
#include <set>

#include "tests/conformance/iwarp_peer.h"
#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D01);

// A short ephemeral range; the behaviour at its end does not depend on its length.
WorldOptions EightPorts() {
  return {.sections = {{"core", "ephemeral-first = 50000\nephemeral-last = 50007"}}};
}

std::vector<Connector> TakeAll(World& w, const Address& local, int count) {
  std::vector<Connector> taken;
  for (int i = 0; i < count; ++i) taken.push_back(w.Bound(w.A(), local));
  return taken;
}

TEST_P(D01, ND_001_PortZeroGivesEphemeral) {
  const Connector c = w.BoundA();
  const Address local = c.GetLocalAddress().value();
  EXPECT_GE(local.port(), 49152);
  EXPECT_TRUE(local.same_ip(w.a()));
}

TEST_P(D01Own, ND_002_WholeEphemeralRange) {
  const int count = Rounds(16'384, 16'384, 256), high = 65'535, low = high - count + 1;
  World w(GetParam(), {.sections = {{"core", "ephemeral-first = " + std::to_string(low)}}});
  EXPECT_EQ(w.A().Program("bind_all", "broker=" + w.broker_a().directory() + " ip=" + w.a().IpToString() +
                                          " count=" + std::to_string(count)),
            "ok distinct=" + std::to_string(count) + " low=" + std::to_string(low) +
                " high=65535 next=TOO_MANY_ADDRESSES");
}

TEST_P(D01Own, ND_003_FreedPortIsFound) {
  World w(GetParam(), EightPorts());
  const std::vector<Connector> all = TakeAll(w, w.a(), 8);
  EXPECT_ND(w.A().CreateConnector().Bind(w.a()), TOO_MANY_ADDRESSES);
  const Address freed = all[3].GetLocalAddress().value();
  EXPECT_ND(all[3].Close(), SUCCESS);
  EXPECT_EQ(w.BoundA().GetLocalAddress().value(), freed);
}

TEST_P(D01Own, ND_004_SpaceIsPerAddress) {
  World w(GetParam(), EightPorts());
  TakeAll(w, w.a(), 8);
  TakeAll(w, w.a_second(), 8);
  EXPECT_ND(w.A().CreateConnector().Bind(w.a_second()), TOO_MANY_ADDRESSES);
}

TEST_P(D01Own, ND_005_ExplicitPortOutsideTheRange) {
  World w(GetParam(), EightPorts());
  TakeAll(w, w.a(), 8);
  EXPECT_ND(w.A().CreateConnector().Bind(w.a(20000)), SUCCESS);
}

TEST_P(D01Own, ND_006_ListenerAndEndpointFindNoPort) {
  World w(GetParam(), EightPorts());
  TakeAll(w, w.a(), 8);
  EXPECT_ND(w.A().CreateListener().Bind(w.a()), TOO_MANY_ADDRESSES);
  EXPECT_ND(w.A().NdkListen(w.a()).status(), TOO_MANY_ADDRESSES);
  EXPECT_ND(w.A().CreateSharedEndpoint(w.a()).status(), TOO_MANY_ADDRESSES);
}

TEST_P(D01Own, ND_007_NdkConnectFindsNoPort) {
  World w(GetParam(), EightPorts());
  w.Listening();
  TakeAll(w, w.a(), 8);
  EXPECT_ND(w.A().CreateConnector().NdkConnect(w.A().CreateQp(), w.a(), w.p(7000)), TOO_MANY_ADDRESSES);
}

TEST_P(D01, ND_008_PortIsExclusive) {
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SHARING_VIOLATION);
}

TEST_P(D01, ND_009_PortOfListener) {
  w.Listening();
  EXPECT_ND(P.CreateConnector().Bind(w.p(7000)), SHARING_VIOLATION);
}

TEST_P(D01, ND_010_ListenerOnPortOfConnector) {
  w.Bound(P, w.p(7000));
  EXPECT_ND(P.CreateListener().Bind(w.p(7000)), SHARING_VIOLATION);
}

TEST_P(D01, ND_011_EndpointAndListener) {
  const Listener l = w.Listening();
  EXPECT_ND(P.CreateSharedEndpoint(w.p(7000)).status(), SHARING_VIOLATION);
  EXPECT_ND(l.Close(), SUCCESS);
  const Endpoint e = P.CreateSharedEndpoint(w.p(7000));
  EXPECT_ND(e.status(), SUCCESS);
  EXPECT_ND(P.CreateListener().Bind(w.p(7000)), SHARING_VIOLATION);
  EXPECT_ND(P.NdkListen(w.p(7000)).status(), SHARING_VIOLATION);
}

TEST_P(D01, ND_012_UnspecifiedConflictsWithEveryAddress) {
  const Address any = World::Ip("0.0.0.0", 7000);
  const Listener l = P.CreateListener();
  EXPECT_ND(l.Bind(any), SUCCESS);
  EXPECT_ND(l.Listen(), SUCCESS);
  EXPECT_ND(P.CreateConnector().Bind(w.p(7000)), SHARING_VIOLATION);
  EXPECT_ND(P.CreateConnector().Bind(w.p_second(7000)), SHARING_VIOLATION);
  EXPECT_ND(l.Close(), SUCCESS);
  w.Bound(P, w.p(7000));
  EXPECT_ND(P.CreateListener().Bind(any), SHARING_VIOLATION);
}

TEST_P(D01, ND_013_SamePortOnTwoAdapters) {
  w.Bound(A, w.a(6000));
  const Object other = A.OpenAdapter(w.other_a());
  ASSERT_ND(other.status(), SUCCESS);
  EXPECT_ND(A.CreateConnector(other.id()).Bind(w.a_other(6000)), SUCCESS);
}

TEST_P(D01, ND_014_SamePortOnBothFamilies) {
  if (!w.has_ipv6()) GTEST_SKIP() << "SKIPPED 014: two brokers cannot share ::1; run with network namespaces";
  w.Bound(A, w.a(6000));
  EXPECT_ND(A.CreateConnector().Bind(w.a6(6000)), SUCCESS);
}

TEST_P(D01, ND_015_AddressOfAnotherAdapter) {
  EXPECT_ND(A.CreateConnector().Bind(w.a_other()), INVALID_ADDRESS);
  EXPECT_ND(A.CreateConnector().Bind(World::Ip("198.51.100.7")), INVALID_ADDRESS);
  EXPECT_ND(A.CreateConnector().NdkConnect(A.CreateQp(), World::Ip("198.51.100.7"), w.p(7000)),
            INVALID_ADDRESS);
}

TEST_P(D01, ND_016_UnspecifiedAddressOfConnector) {
  EXPECT_ND(A.CreateConnector().Bind(World::Ip("0.0.0.0")), INVALID_ADDRESS);
}

TEST_P(D01, ND_017_LengthTooShortForFamily) {
  const Connector c = A.CreateConnector();
  EXPECT_ND(c.Bind(Address::FromParts(Address::Family::kIpv4, "\x7f\0", 6000)), INVALID_ADDRESS,
            INVALID_PARAMETER_2);
  EXPECT_ND(c.Bind(Address::FromParts(Address::Family::kIpv6, std::string(4, '\1'), 6000)), INVALID_ADDRESS,
            INVALID_PARAMETER_2);
  EXPECT_ND(c.GetLocalAddress(), CONNECTION_INVALID);
  EXPECT_ND(c.Bind(w.a(6000)), SUCCESS);
}

TEST_P(D01, ND_018_SecondBindOfConnector) {
  const Connector c = w.Bound(A, w.a(6000));
  EXPECT_ND(c.Bind(w.a(6001)), ADDRESS_ALREADY_ASSOCIATED);
  EXPECT_EQ(c.GetLocalAddress().value(), w.a(6000));
  EXPECT_ND(A.CreateConnector().Bind(w.a(6001)), SUCCESS);
}

TEST_P(D01, ND_019_SecondBindOfListener) {
  const Listener l = P.CreateListener();
  EXPECT_ND(l.Bind(w.p(7000)), SUCCESS);
  EXPECT_ND(l.Bind(w.p(7001)), ADDRESS_ALREADY_ASSOCIATED);
  EXPECT_ND(l.Listen(), SUCCESS);
  EXPECT_EQ(l.GetLocalAddress().value(), w.p(7000));
}

TEST_P(D01Own, ND_020_EphemeralSkipsExplicit) {
  World w(GetParam(), EightPorts());
  w.Bound(w.A(), w.a(50004));
  std::set<std::uint16_t> ports;
  for (const Connector& c : TakeAll(w, w.a(), 7)) ports.insert(c.GetLocalAddress().value().port());
  EXPECT_EQ(ports.size(), 7u);
  EXPECT_FALSE(ports.contains(50004));
  EXPECT_ND(w.A().CreateConnector().Bind(w.a()), TOO_MANY_ADDRESSES);
}

TEST_P(D01, ND_021_NoTimeWait) {
  for (int i = 0; i < 3; ++i) EXPECT_ND(w.Bound(A, w.a(6000)).Close(), SUCCESS);
}

TEST_P(D01, ND_022_PortIsHeldUntilClose) {
  const Link up = w.Up({.a = w.Bound(A, w.a(6000))});
  EXPECT_ND(up.a.Disconnect(), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SHARING_VIOLATION);
  EXPECT_ND(up.a.Close(), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
}

TEST_P(D01, ND_023_AcceptedConnectorHoldsListenersPort) {
  const Link up = w.Up();
  const Outcome closing = up.l.Close();
  EXPECT_PENDING(closing);
  EXPECT_ND(P.CreateListener().Bind(w.p(7000)), SHARING_VIOLATION);
  EXPECT_ND(P.CreateConnector().Bind(w.p(7000)), SHARING_VIOLATION);
  EXPECT_ND(P.CreateSharedEndpoint(w.p(7000)).status(), SHARING_VIOLATION);
  EXPECT_ND(up.p.Close(), SUCCESS);
  EXPECT_ND(closing, SUCCESS);
  EXPECT_ND(P.CreateListener().Bind(w.p(7000)), SUCCESS);
}

TEST_P(D01, ND_024_HostPortsAreAnotherSpace) {
  if (w.one_phase()) ND_EXCEPTED() << "EXCEPTED 024: iWARP devices share the host's TCP ports (025)";
  {
    const UniqueFd host = ListenerAt(w.p(7000));
    ASSERT_TRUE(host);
    w.ExpectTraffic(w.Up());
  }
  w.Listening(7001);
  EXPECT_TRUE(ListenerAt(w.p(7001)));
}

TEST_P(D01Own, ND_025_TcpModeRefusesHostsPort) {
  World w(GetParam(), {.adapter = GetParam() == Transport::kVerbs ? "" : "mode = \"tcp\""});
  if (w.verbs() && !w.one_phase()) ND_EXCEPTED() << "EXCEPTED 025: RoCE has a port space of its own (024)";
  {
    const UniqueFd host = ListenerAt(w.p(7000));
    ASSERT_TRUE(host);
    const Listener l = w.P().CreateListener();
    EXPECT_ND(l.Bind(w.p(7000)), SHARING_VIOLATION);
  }
  w.ExpectTraffic(w.Up());
  EXPECT_FALSE(ListenerAt(w.p(7000)));
}

TEST_P(D01, ND_026_TwoProcessesRaceForOnePort) {
  Actor& second = w.Extra();
  const int rounds = Rounds(1000, 1000, 50);
  const std::string arguments = "broker=" + w.broker_a().directory() + " ip=" + w.a().IpToString() +
                                " port=6000 rounds=" + std::to_string(rounds) +
                                " meet=" + w.broker_a().directory() + "/../race";
  const std::uint32_t one = A.StartProgram("race_bind", arguments + " me=0");
  const std::uint32_t two = second.StartProgram("race_bind", arguments + " me=1");
  const std::string first = A.JoinProgram(one, milliseconds(60'000));
  const std::string other = second.JoinProgram(two, milliseconds(60'000));
  // "ok " and one character for each round: w for won, l for lost.
  ASSERT_EQ(first.size(), 3 + static_cast<std::size_t>(rounds)) << first;
  ASSERT_EQ(other.size(), first.size()) << other;
  for (std::size_t round = 3; round < first.size(); ++round) {
    EXPECT_NE(first[round] == 'w', other[round] == 'w') << "winners in round " << round - 3;
  }
}

TEST_P(D01, ND_027_KilledOwnerFreesItsPort) {
  Actor& victim = w.Extra();
  ASSERT_ND(victim.Open(), SUCCESS);
  EXPECT_ND(victim.CreateConnector().Bind(w.a(6000)), SUCCESS);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SHARING_VIOLATION);
  victim.Kill();
  EXPECT_TRUE(Eventually([&] { return A.CreateConnector().Bind(w.a(6000)).ok(); }, milliseconds(1000)));
}

TEST_P(D01Own, ND_028_PrivilegedPorts) {
  ND_NEEDS_USERS("028");
  {
    World w(GetParam(), {.sections = {{"core", "privileged-ports-below = 1024"}}, .uid_a = 65534});
    EXPECT_ND(w.A().CreateConnector().Bind(w.a(80)), ACCESS_DENIED);
    EXPECT_ND(w.P().CreateConnector().Bind(w.p(80)), SUCCESS);
  }
  World off(GetParam(), {.uid_a = 65534});
  EXPECT_ND(off.A().CreateConnector().Bind(off.a(80)), SUCCESS);
}

TEST_P(D01Own, ND_028_ConnectAgainstPolicy) {
  // The policy forbids every connect to port 7001, whoever listens there.
  const std::string anywhere = "\"0.0.0.0/0:1-7000\", \"::/0:1-7000\"";
  World w(GetParam(), {.rules = {"name = \"below\"\nconnect = [" + anywhere + "]"}});
  const Listener forbidden = w.Listening(7001);
  const Connector c = w.BoundA();
  const Qp qp = w.A().CreateQp();
  const Outcome refused = c.Connect(qp, w.p(7001));
  EXPECT_ND(refused, ACCESS_DENIED);
  EXPECT_EQ(refused.Wait().detail(), Detail::kPolicy);
  EXPECT_ND(w.A().CreateConnector().NdkConnect(w.A().CreateQp(), w.a(), w.p(7001)), ACCESS_DENIED);
  EXPECT_PENDING(forbidden.GetConnectionRequest(w.P().CreateConnector()));
  w.ExpectTraffic(w.Up());
}

TEST_P(D01Own, ND_029_SameOwnerSharing) {
  World w(GetParam(), {.sections = {{"compat", "allow-same-owner-bind-sharing = true"}}});
  const Listener listener = w.Listening();
  const Connector first = w.P().CreateConnector();
  std::uint16_t port = 7000;
  if (w.verbs()) {  // A device shares the ports of connectors only.
    EXPECT_ND(first.Bind(w.p(port)), SHARING_VIOLATION);
    EXPECT_ND(first.Bind(w.p(++port)), SUCCESS);
  }
  EXPECT_ND(w.P().CreateConnector().Bind(w.p(port)), SUCCESS);
  // A process of another session is another owner.
  Actor& stranger = w.Extra(true);
  ASSERT_ND(stranger.Open(), SUCCESS);
  EXPECT_ND(stranger.CreateConnector().Bind(w.p(port)), SHARING_VIOLATION);
  if (!CanBeAnotherUser()) return;
  Actor& other_user = w.Extra(true, {.uid = 65534});
  ASSERT_ND(other_user.Open(), SUCCESS);
  EXPECT_ND(other_user.CreateConnector().Bind(w.p(port)), SHARING_VIOLATION);
}

TEST_P(D01, ND_030_RefusedNdkConnectFreesItsPort) {
  const Connector c = A.CreateConnector();
  EXPECT_ND(c.NdkConnect(A.CreateQp(), w.a(6000), w.p(7999)), CONNECTION_REFUSED);
  EXPECT_ND(A.CreateConnector().Bind(w.a(6000)), SUCCESS);
}

}  // namespace
}  // namespace nd::conformance
