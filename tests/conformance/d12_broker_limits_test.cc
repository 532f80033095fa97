// SPDX-License-Identifier: Apache-2.0
// d.12 Broker and several processes: many clients, and a client in another network namespace.
#include <algorithm>
#include <set>

#include "tests/conformance/world.h"

namespace nd::conformance {
namespace {

ND_GROUP(D12Many);

TEST_P(D12Many, ND_226_ManyClientsAtOnce) {
  // A client and its eight connections have 40 descriptors at most.
  const int clients = std::min(Rounds(64, 512, 6), static_cast<int>(testing::AllowManyDescriptors() / 44));
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

// At most this many handshakes are on the wire. The others wait in order, and none is lost.
TEST_P(D12ManyOwn, ND_227_StormIsPaced) {
  // The pace is long, so an unanswered request stays in flight, and all that were sent wait at the listener.
  World w(GetParam(), {.sections = {{"core", "max-handshakes-in-flight = 8\nmax-backlog = 65536"},
                                    {"timeouts", "handshake-pace = \"1h\""}}});
  constexpr std::uint64_t kInFlight = 8;
  const auto in_flight = [&] { return w.broker_p().Admin("ListListeners").Number("items.0.backlog_used"); };
  const Listener l = w.Listening();
  const Cq cq = w.A().CreateCq();  // One completion queue for all, because a queue costs a descriptor.
  const int count = Rounds(200, 10'000, 40);
  std::vector<Outcome> connects;
  std::uint64_t most = 0;
  for (int i = 0; i < count; ++i) {
    const Qp qp = w.A().CreateQp({.cq = cq, .receive_depth = 1, .initiator_depth = 1});
    ASSERT_ND(qp.status(), SUCCESS);
    connects.push_back(w.BoundA().Connect(qp, w.p(7000), {.data = std::to_string(i)}));
    ASSERT_ND(connects.back().inline_status(), PENDING);
    if (i % 16 == 0) most = std::max(most, in_flight());
  }
  // One place is left for the next user.
  EXPECT_TRUE(Eventually([&] { return in_flight() == kInFlight - 1; })) << in_flight();
  std::set<std::string> came;
  for (int i = 0; i < count; ++i) {
    const Connector p = w.P().CreateConnector();
    ASSERT_ND(l.GetConnectionRequest(p), SUCCESS);
    if (i % 16 == 0) most = std::max(most, in_flight());
    const Result<std::string> sent = p.PrivateData();
    ASSERT_ND(sent, SUCCESS);
    const std::string& data = *sent;
    EXPECT_TRUE(came.insert(data).second) << data << " came twice";
    // On devices, handshakes in the kernel may overtake each other.
    if (!w.verbs()) {
      EXPECT_EQ(data, std::to_string(i)) << "requests arrive in the order of the calls";
    }
    EXPECT_ND(p.Reject(), SUCCESS);
    EXPECT_ND(p.Close(), SUCCESS);
  }
  for (const Outcome& connect : connects) EXPECT_ND(connect, CONNECTION_REFUSED);
  EXPECT_GE(most, 1u);
  EXPECT_LE(most, kInFlight);
}

TEST_P(D12ManyOwn, ND_232_ClientInAnotherNamespace) {
  ND_NEEDS_NAMESPACES("232");
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
  // The client cannot bind addresses of the host. It cannot bind its own either, because its namespace has no
  // adapter.
  for (const Address& address : {w.a(), w.a_second(), World::Ip("127.0.0.1"), own}) {
    SCOPED_TRACE(address.ToString());
    EXPECT_ND(guest.CheckAddress(address), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateConnector().Bind(address), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateListener().Bind(address), INVALID_ADDRESS);
    EXPECT_ND(guest.NdkListen(address.WithPort(7001)).status(), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateSharedEndpoint(address).status(), INVALID_ADDRESS);
    EXPECT_ND(guest.CreateConnector().NdkConnect(guest.CreateQp(), address, w.p(7000)), INVALID_ADDRESS);
  }
  // Clients in the namespace of the broker are not affected.
  w.ExpectTraffic(w.Up({.l = l}));
}

// With the administrator's setting, the foreign client is served like any other.
TEST_P(D12ManyOwn, ND_232_ClientInAnotherNamespaceAllowed) {
  ND_NEEDS_NAMESPACES("232");
  World w(GetParam(), {.sections = {{"broker", "foreign-network-namespaces = \"allow\""}}});
  const Namespace elsewhere;
  ASSERT_TRUE(elsewhere.ok());
  ASSERT_EQ(Ip("addr add 10.99.0.1/32 dev lo", elsewhere.fd()), "");
  Actor& guest = w.Extra(false, {.network_namespace = elsewhere.fd()});
  ASSERT_ND(guest.Open(), SUCCESS);
  // The addresses of the adapter are those of the broker's namespace, not those of the client's namespace.
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
