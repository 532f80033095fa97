// SPDX-License-Identifier: Apache-2.0
// d.12 Broker and several processes: many clients, and a client in another network namespace.
#include <set>

#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D12Many);

TEST_P(D12Many, ND_226_ManyClientsAtOnce) {
  const int clients = Rounds(64, 512, 6);
  const std::string from = " from=" + w.a().IpToString() + " fromport=0";
  const std::string at = " ip=" + w.p().IpToString() + " port=7000";
  const std::uint32_t server =
      P.StartProgram("accept_loop", "broker=" + w.broker_p().directory() + at +
                                        " mode=wait threads=" + std::to_string(clients * 8 + 1));
  ASSERT_TRUE(Eventually([&] { return w.broker_p().Count().listeners == 1; }));
  const std::string up = A.Program("many_clients", "broker=" + w.broker_a().directory() + at + from +
                                                       " clients=" + std::to_string(clients) + " each=8");
  EXPECT_EQ(up, "ok up=" + std::to_string(clients * 8));
  const std::string served = P.JoinProgram(server, milliseconds(60'000));
  EXPECT_EQ(served.substr(0, 3), "ok ") << served;
}

// At most this many handshakes are on the wire; the rest wait in order and none is lost.
TEST_P(D12ManyOwn, ND_227_StormIsPaced) {
  World w(GetParam(), {.sections = {{"core", "max-handshakes-in-flight = 8\nmax-backlog = 65536"}}});
  const Listener l = w.Listening();
  const int count = Rounds(200, 10'000, 40);
  std::vector<Outcome> connects;
  std::uint64_t most = 0;
  for (int i = 0; i < count; ++i) {
    connects.push_back(w.BoundA().Connect(w.A().CreateQp({.receive_depth = 1, .initiator_depth = 1}),
                                          w.p(7000), {.data = std::to_string(i)}));
    EXPECT_ND(connects.back().inline_status(), PENDING);
    if (i % 16 == 0) most = std::max(most, w.broker_a().Count().handshakes);
  }
  std::set<std::string> came;
  for (int i = 0; i < count; ++i) {
    const Connector p = w.P().CreateConnector();
    ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
    const std::string data = p.PrivateData().value();
    EXPECT_TRUE(came.insert(data).second) << data << " came twice";
    // What a device's kernel has in hand at the same time may overtake each other.
    if (!w.verbs()) {
      EXPECT_EQ(data, std::to_string(i)) << "requests arrive in the order of the calls";
    }
    EXPECT_ND(p.Reject(), SUCCESS);
    EXPECT_ND(p.Close(), SUCCESS);
  }
  for (const Outcome& connect : connects) EXPECT_ND(connect, CONNECTION_REFUSED);
  RecordProperty("handshakes", static_cast<int>(most));
}

TEST_P(D12ManyOwn, ND_232_ClientInAnotherNamespace) {
  if (!InPrivateNetwork()) GTEST_SKIP() << "SKIPPED 232: network namespaces are not allowed here";
  World w(GetParam());
  const Namespace elsewhere;
  ASSERT_TRUE(elsewhere.ok());
  const Address own = World::Ip("10.99.0.1");
  ASSERT_EQ(Ip("addr add 10.99.0.1/32 dev lo", elsewhere.fd()), "");
  Actor& guest = w.Extra(false, {.network_namespace = elsewhere.fd()});
  ASSERT_ND(guest.Open(), SUCCESS);
  EXPECT_TRUE(guest.Info().addresses.empty());
  EXPECT_TRUE(guest.QueryAddressList().value().empty());
  EXPECT_ND(guest.ResolveAddress(w.p()), NETWORK_UNREACHABLE);
  const Listener l = w.Listening();
  // Neither the host's addresses nor, since no adapter is there, its own.
  for (const Address& address : {w.a(), w.a_second(), World::Ip("127.0.0.1"), own}) {
    SCOPED_TRACE(address.ToString());
    EXPECT_ND(guest.CheckAddress(address), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateConnector().Bind(address), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateListener().Bind(address), INVALID_ADDRESS);
    EXPECT_ND(guest.NdkListen(address.WithPort(7001)).status(), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateSharedEndpoint(address).status(), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateConnector().NdkConnect(guest.CreateQp(), address, w.p(7000)), INVALID_ADDRESS);
  }
  // It hurts nobody who is at home.
  w.ExpectTraffic(w.Up({.l = l}));
}

// The administrator's word turns the guest into a client like any other.
TEST_P(D12ManyOwn, ND_232_ClientInAnotherNamespaceAllowed) {
  if (!InPrivateNetwork()) GTEST_SKIP() << "SKIPPED 232: network namespaces are not allowed here";
  World w(GetParam(), {.sections = {{"broker", "foreign-network-namespaces = \"allow\""}}});
  const Namespace elsewhere;
  ASSERT_TRUE(elsewhere.ok());
  ASSERT_EQ(Ip("addr add 10.99.0.1/32 dev lo", elsewhere.fd()), "");
  Actor& guest = w.Extra(false, {.network_namespace = elsewhere.fd()});
  ASSERT_ND(guest.Open(), SUCCESS);
  // The adapter's addresses are those of the broker's namespace; what the guest's own has is none of them.
  EXPECT_ND(guest.CreateConnector().Bind(World::Ip("10.99.0.1")), INVALID_ADDRESS);
  EXPECT_FALSE(guest.Info().addresses.empty());
  const Listener l = w.Listening();
  const Connector a = w.Bound(guest, w.a()), p = w.P().CreateConnector();
  Link link{.l = l,
            .a = a,
            .p = p,
            .aq = guest.CreateQp(),
            .pq = w.P().CreateQp(),
            .connect = {},
            .accept = {},
            .to = w.p(7000)};
  link.connect = a.Connect(link.aq, link.to);
  ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
  w.Reply(link);
  w.Complete(link);
  w.ExpectTraffic(link);
}

}  // namespace
}  // namespace nd::conformance
