// SPDX-License-Identifier: Apache-2.0
// Addresses and ports (behaviour d.1), the provider's reservations, quotas and policy, through the broker.
#include <set>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;

SC EndpointNew(World& w, const World::Client& c, const std::string& local) {
  return w.Try(c, CreateSharedEndpointOp{c.adapter, Ip(local)});
}

TEST(Ports, ND_001_To_007_EphemeralCapacity) {
  World w;
  w.check_always = false;
  const auto c = w.Open();
  std::set<std::uint16_t> ports;
  std::vector<Handle> held;
  for (int i = 0; i < 16384; ++i) {
    held.push_back(w.Connector(c));
    const Complete bound = w.Call(c, BindOp{held.back(), Ip("10.0.0.1:0")});
    ASSERT_TRUE(bound.status.ok());
    ASSERT_GE(bound.reply.address.port(), 49152);
    ASSERT_TRUE(ports.insert(bound.reply.address.port()).second);
    ASSERT_TRUE(bound.reply.address.same_ip(Ip("10.0.0.1")));
  }
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:0").status, SC::kTooManyAddresses);
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:0"), SC::kTooManyAddresses);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:0"), SC::kTooManyAddresses);
  ConnectOp ndk;
  ndk.connector = w.Connector(c);
  ndk.queue_pair = w.Qp(c);
  ndk.remote = Ip("10.0.0.2:7000");
  ndk.source = Ip("10.0.0.1:0");
  EXPECT_EQ(w.Try(c, ndk), SC::kTooManyAddresses);
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:20000").status, SC::kSuccess);
  const Address freed = w.Call(c, GetLocalAddressOp{held[77]}).reply.address;
  EXPECT_EQ(w.Close(c, held[77]), SC::kSuccess);
  EXPECT_EQ(w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address, freed);
  for (int i = 0; i < 16384; ++i) ASSERT_EQ(BindNew(w, c, "10.0.0.2:0").status, SC::kSuccess);
  EXPECT_EQ(BindNew(w, c, "10.0.0.2:0").status, SC::kTooManyAddresses);
  EXPECT_EQ(w.broker().CheckInvariants(), "");
}

TEST(Ports, ND_008_To_019_Conflicts) {
  World w;
  const auto c = w.Open(), other = w.Open(0, 1001), a1 = w.Open(0, 1000, 0, "a1");
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:6000").status, SC::kSuccess);
  EXPECT_EQ(BindNew(w, other, "10.0.0.1:6000").status, SC::kSharingViolation);
  w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:7000").status, SC::kSharingViolation);
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:6000"), SC::kSharingViolation);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:7000"), SC::kSharingViolation);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:9999"), SC::kSuccess);
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:9999"), SC::kSharingViolation);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:9999"), SC::kSharingViolation);
  w.Listener(c, "0.0.0.0:7100");
  EXPECT_EQ(BindNew(w, c, "10.0.0.2:7100").status, SC::kSharingViolation);
  EXPECT_EQ(BindNew(w, c, "[fd00::1]:7100").status, SC::kSuccess);
  EXPECT_EQ(BindNew(w, c, "[fd00::1]:6000").status, SC::kSuccess);
  EXPECT_EQ(ListenNew(w, c, "0.0.0.0:6000"), SC::kSharingViolation);
  EXPECT_EQ(BindNew(w, a1, "10.1.0.1:6000").status, SC::kSuccess);
  EXPECT_EQ(BindNew(w, c, "9.9.9.9:6001").status, SC::kInvalidAddress);
  EXPECT_EQ(BindNew(w, c, "0.0.0.0:6001").status, SC::kInvalidAddress);
  EXPECT_EQ(EndpointNew(w, c, "0.0.0.0:6001"), SC::kInvalidAddress);  // ND_172
  const Handle k = w.Connector(c);
  EXPECT_EQ(w.Try(c, BindOp{k, Address::FromParts(Address::Family::kIpv4, "ab", 1)}), SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, BindOp{k, Ip("10.0.0.1:6002")}), SC::kSuccess);
  EXPECT_EQ(w.Try(c, BindOp{k, Ip("10.0.0.1:6003")}), SC::kAddressAlreadyAssociated);
  EXPECT_EQ(w.Call(c, GetLocalAddressOp{k}).reply.address, Ip("10.0.0.1:6002"));
  EXPECT_EQ(w.Close(c, k), SC::kSuccess);
  EXPECT_EQ(BindNew(w, other, "10.0.0.1:6002").status, SC::kSuccess);  // ND_021
}

TEST(Ports, ND_022_023_027_HeldUntilClose) {
  World w;
  const auto up = w.Pair(World::Stage::kPeerClosed);
  const auto c = w.Open();
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kDead);
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:6000").status, SC::kSharingViolation);
  EXPECT_EQ(w.broker().Ports().back().state, "lingering");
  EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:6000").status, SC::kSuccess);
  const OpId close = w.Submit(up.p, CloseOp{up.listener, false});
  EXPECT_EQ(w.Code(up.p, close), SC::kPending);
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:7000"), SC::kSharingViolation);
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:7000").status, SC::kSharingViolation);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:7000"), SC::kSharingViolation);
  EXPECT_EQ(w.Close(up.p, up.pc), SC::kSuccess);
  EXPECT_EQ(w.Code(up.p, close), SC::kSuccess);
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:7000"), SC::kSuccess);
  w.Die(c);
  EXPECT_EQ(BindNew(w, w.Open(), "10.0.0.1:7000").status, SC::kSuccess);
}

TEST(Ports, ND_028_PrivilegedPorts) {
  Settings s;
  s.privileged_ports_below = 1024;
  World w(1, s);
  EXPECT_EQ(BindNew(w, w.Open(0, 1000), "10.0.0.1:80").status, SC::kAccessDenied);
  EXPECT_EQ(BindNew(w, w.Open(0, 0), "10.0.0.1:80").status, SC::kSuccess);
}

TEST(Ports, ND_029_SameOwnerSharing) {
  Settings s;
  s.allow_same_owner_bind_sharing = true;
  World w(1, s);
  const auto c = w.Open(0, 1000, 50), same = w.Open(0, 1000, 50), other = w.Open(0, 1001, 50);
  w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:7000").status, SC::kSuccess);
  EXPECT_EQ(BindNew(w, same, "10.0.0.1:7000").status, SC::kSuccess);
  EXPECT_EQ(BindNew(w, other, "10.0.0.1:7000").status, SC::kSharingViolation);
  World strict;
  const auto d = strict.Open();
  strict.Listener(d, "10.0.0.1:7000");
  EXPECT_EQ(BindNew(strict, d, "10.0.0.1:7000").status, SC::kSharingViolation);
}

TEST(Ports, ND_029_ListenersOfDevicesShareNoPort) {
  Settings s;
  s.allow_same_owner_bind_sharing = true;
  World w(1, s);
  auto adapters = w.broker().Adapters();
  adapters[0].description.shares_listening_ports = false;
  w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
  const auto c = w.Open();
  w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:7000").status, SC::kSharingViolation);
  w.Bound(c, "10.0.0.1:7001");
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:7001").status, SC::kSuccess);
}

TEST(Ports, ND_030_FailedNdkConnectFreesItsPort) {
  World w;
  const auto c = w.Open();
  ConnectOp ndk;
  ndk.connector = w.Connector(c);
  ndk.queue_pair = w.Qp(c);
  ndk.remote = Ip("10.0.0.2:7000");
  ndk.source = Ip("10.0.0.1:6000");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(w.Try(c, ndk), SC::kConnectionRefused);  // ND_086
  EXPECT_EQ(w.State(c, ndk.connector), ConnectorState::kUnbound);
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:6000").status, SC::kSuccess);
}

void ReservePorts(World& w) {
  auto adapters = w.broker().Adapters();
  adapters[0].description.reserve_ports = true;
  w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
}

TEST(Reserve, ProviderReservesAndReleases) {
  World w;
  ReservePorts(w);
  const auto c = w.Open();
  w.reserve_answers[6001] = SC::kSharingViolation;
  const Handle k = w.Bound(c, "10.0.0.1:6000");
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:6001").status, SC::kSharingViolation);
  ASSERT_EQ(w.Seen<CmReserve>().size(), 2u);
  EXPECT_TRUE(w.Seen<CmRelease>().empty());
  EXPECT_EQ(w.Close(c, k), SC::kSuccess);
  ASSERT_EQ(w.Seen<CmRelease>().size(), 1u);
  EXPECT_EQ(w.Seen<CmRelease>()[0].endpoint, w.Seen<CmReserve>()[0].endpoint);
}

TEST(Reserve, PortZeroTriesTheNextCandidate) {
  Settings s;
  s.ephemeral_first = 50000;
  s.ephemeral_last = 50009;
  World w(1, s);
  ReservePorts(w);
  for (std::uint16_t p = 50000; p < 50009; ++p) w.reserve_answers[p] = SC::kSharingViolation;
  const auto c = w.Open();
  const Complete bound = w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")});
  EXPECT_EQ(bound.reply.address.port(), 50009);
  EXPECT_EQ(BindNew(w, c, "10.0.0.1:0").status, SC::kTooManyAddresses);
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:0"), SC::kTooManyAddresses);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:0"), SC::kTooManyAddresses);
}

TEST(Reserve, CancelAndCloseWhileTheProviderIsPending) {
  World w;
  ReservePorts(w);
  const auto c = w.Open();
  w.answer_reserves = false;
  const Handle k = w.Connector(c);
  const OpId bind = w.Submit(c, BindOp{k, Ip("10.0.0.1:6000")});
  EXPECT_EQ(w.Code(c, bind), SC::kPending);
  EXPECT_EQ(w.Try(c, BindOp{k, Ip("10.0.0.1:6000")}), SC::kAddressAlreadyAssociated);
  EXPECT_EQ(w.Try(c, CancelOp{k}), SC::kSuccess);
  EXPECT_EQ(w.Code(c, bind), SC::kCanceled);
  EXPECT_EQ(w.Seen<CmRelease>().size(), 1u);
  w.Step(0, CmReserved{w.Seen<CmReserve>()[0].endpoint, {}});  // Too late: the listener is closed.
  const Handle l = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  const OpId listen = w.Submit(c, ListenOp{l, 0, Ip("10.0.0.1:7000"), false});
  EXPECT_EQ(w.Close(c, l), SC::kSuccess);
  EXPECT_EQ(w.Code(c, listen), SC::kCanceled);
  w.Submit(c, CreateSharedEndpointOp{c.adapter, Ip("10.0.0.1:7001")});
  w.Die(c);
  EXPECT_TRUE(w.broker().Ports().empty());
  EXPECT_EQ(w.Seen<CmRelease>().size(), 3u);
}

TEST(Quotas, EachResourceIsLimitedAndARefusalChangesNothing) {
  Rule rule;
  rule.limits = {2, 3, 1, 1, 2, 4};
  World w(1, {}, Policy({rule}));
  const auto c = w.Open(), second = w.Open();
  w.Open();  // The third session of this user.
  ASSERT_EQ(w.Seen<EndSession>().size(), 1u);
  EXPECT_EQ(w.Seen<EndSession>()[0].why.code(), SC::kInsufficientResources);
  EXPECT_EQ(w.broker().Sessions().size(), 2u);
  const Handle k = w.Connector(c);
  w.Connector(second);
  w.Connector(c);
  const Complete over = w.Call(c, CreateConnectorOp{c.adapter});
  EXPECT_EQ(over.status.code(), SC::kInsufficientResources);
  EXPECT_EQ(over.status.detail(), Detail::kQuota);
  EXPECT_FALSE(over.reply.handle);
  w.Qp(c);
  w.Qp(c);
  EXPECT_EQ(w.Try(c, CreateQueuePairOp{c.adapter, 1, 1, 0}), SC::kInsufficientResources);
  w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(w.Try(c, CreateListenerOp{c.adapter}), SC::kInsufficientResources);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:1"), SC::kSuccess);
  EXPECT_EQ(EndpointNew(w, c, "10.0.0.1:2"), SC::kInsufficientResources);
  w.Close(c, k);
  w.Bound(c, "10.0.0.1:3");
  const auto other = w.Open(0, 1001);
  EXPECT_EQ(BindNew(w, other, "10.0.0.1:4").status, SC::kSuccess);
  const std::size_t ports = w.broker().Ports().size();
  EXPECT_EQ(ports, 4u);
}

TEST(Quotas, ND_079_PortQuotaLeavesTheConnectorUsable) {
  Rule rule;
  rule.limits.ports = 0;
  World w(1, {}, Policy({rule}));
  const auto c = w.Open();
  const Handle k = w.Connector(c);
  EXPECT_EQ(w.Try(c, BindOp{k, Ip("10.0.0.1:1")}), SC::kInsufficientResources);
  ConnectOp ndk;
  ndk.connector = k;
  ndk.queue_pair = w.Qp(c);
  ndk.remote = Ip("10.0.0.2:7000");
  ndk.source = Ip("10.0.0.1:6000");
  EXPECT_EQ(w.Try(c, ndk), SC::kInsufficientResources);
  w.Step(0, SettingsChanged{{}, {}});
  EXPECT_EQ(w.Try(c, ndk), SC::kConnectionRefused);
  EXPECT_EQ(w.Try(c, BindOp{k, Ip("10.0.0.1:1")}), SC::kSuccess);
}

TEST(Ports, ND_232_ForeignNetworkHasNoAddresses) {
  World w;
  w.open_foreign = true;
  const auto guest = w.Open();
  w.open_foreign = false;
  const auto host = w.Open();
  const Handle l = w.Listener(host, "10.0.0.1:7000");
  for (const char* own : {"10.0.0.1:6000", "10.0.0.2:0", "[fd00::1]:0", "10.99.0.1:6000", "0.0.0.0:6000"}) {
    EXPECT_EQ(BindNew(w, guest, own).status, SC::kInvalidAddress) << own;
    EXPECT_EQ(ListenNew(w, guest, own), SC::kInvalidAddress) << own;
    EXPECT_EQ(EndpointNew(w, guest, own), SC::kInvalidAddress) << own;
    EXPECT_EQ(w.Try(guest, CheckAddressOp{guest.adapter, Ip(own)}), SC::kInvalidAddress) << own;
    const Handle listener = w.Call(guest, CreateListenerOp{guest.adapter}).reply.handle;
    EXPECT_EQ(w.Try(guest, BindOp{listener, Ip(own)}), SC::kInvalidAddress) << own;
  }
  ConnectOp ndk;
  ndk.connector = w.Connector(guest);
  ndk.queue_pair = w.Qp(guest);
  ndk.remote = Ip("10.0.0.1:7000");
  ndk.source = Ip("10.0.0.1:0");
  EXPECT_EQ(w.Try(guest, ndk), SC::kInvalidAddress);
  EXPECT_EQ(
      w.Try(guest, ReattachOp{guest.adapter, w.Qp(guest), Ip("10.0.0.1:5"), Ip("10.0.0.2:6"), {}, false}),
      SC::kInvalidAddress);
  EXPECT_EQ(w.Try(guest, ResolveAddressOp{guest.adapter, Ip("10.0.0.1")}), SC::kNetworkUnreachable);
  // The addresses of the host must not show, not even in messages.
  const auto words = [&](const char* local) {
    return w.Call(guest, BindOp{w.Connector(guest), Ip(local)}).status.ToString();
  };
  EXPECT_EQ(words("10.0.0.1:0"), words("10.99.0.1:0"));
  EXPECT_EQ(w.Try(guest, OpenAdapterOp{"", Ip("10.0.0.1")}),
            w.Try(guest, OpenAdapterOp{"", Ip("10.99.0.1")}));
  for (const Complete& seen : {w.Call(guest, ListAdaptersOp{}), w.Call(guest, OpenAdapterOp{"a0", {}})}) {
    ASSERT_FALSE(seen.reply.adapters.empty());
    for (const AdapterInfo& info : seen.reply.adapters) EXPECT_TRUE(info.addresses.empty());
  }
  EXPECT_EQ(w.Call(host, ListAdaptersOp{}).reply.adapters[0].addresses.size(), 3u);
  EXPECT_EQ(BindNew(w, host, "10.0.0.2:6000").status, SC::kSuccess);
  EXPECT_EQ(w.Close(host, l), SC::kSuccess);
}

TEST(PolicyInBroker, ListenAndConnect) {
  Rule rule;
  rule.name = "only";
  rule.listen = std::vector<Prefix>{{Ip("10.0.0.1"), 32, 7000, 7000}};
  rule.connect = std::vector<Prefix>{{Ip("10.0.0.0"), 24, 7000, 7000}};
  World w(1, {}, Policy({rule}));
  const auto c = w.Open();
  EXPECT_EQ(ListenNew(w, c, "10.0.0.1:7001"), SC::kAccessDenied);
  const Handle l = w.Listener(c, "10.0.0.1:7000");
  EXPECT_EQ(w.Code(c, w.Connect(c, w.Bound(c, "10.0.0.2:0"), w.Qp(c), "10.0.0.1:7001")), SC::kAccessDenied);
  const OpId ok = w.Connect(c, w.Bound(c, "10.0.0.2:0"), w.Qp(c), "10.0.0.1:7000");
  EXPECT_EQ(w.Code(c, ok), SC::kPending);
  rule.listen->clear();
  w.Step(0, SettingsChanged{{}, Policy({rule})});
  const OpId refused = w.Connect(c, w.Bound(c, "10.0.0.2:0"), w.Qp(c), "10.0.0.1:7000");
  EXPECT_EQ(w.Code(c, refused), SC::kConnectionRefused);
  EXPECT_EQ(w.Result(c, refused).status.detail(), Detail::kPolicy);
  EXPECT_EQ(w.Code(c, ok), SC::kPending);
  EXPECT_EQ(w.Close(c, l), SC::kSuccess);
}

// An attempt that got no ephemeral port must not affect the next one, which names a port.
TEST(Reserve, FailedAttemptDoesNotChangeTheNextPort) {
  Rule none;
  none.name = "none";
  none.limits.ports = 0;
  World w(1, {}, Policy({none}));
  provider::AdapterDescription d = TestAdapter("a0", {"10.0.0.1"});
  d.reserve_ports = true;
  w.Step(0, AdaptersChanged{{d}});
  w.reserve_answers[6001] = StatusCode::kSharingViolation;
  const World::Client c = w.Open();
  const Handle connector = w.Connector(c);
  ConnectOp connect;
  connect.connector = connector;
  connect.queue_pair = w.Qp(c);
  connect.remote = Ip("10.9.0.1:7000");
  connect.source = Ip("10.0.0.1:0");
  EXPECT_EQ(w.Try(c, connect), StatusCode::kInsufficientResources);
  w.Step(0, SettingsChanged{{}, {}});
  connect.source = Ip("10.0.0.1:6001");
  EXPECT_EQ(w.Try(c, connect), StatusCode::kSharingViolation);
}

TEST(Ports, ReloadMovesTheEphemeralRange) {
  World w(1);
  const auto c = w.Open();
  Settings settings;
  settings.ephemeral_first = 40000;
  settings.ephemeral_last = 40001;
  w.Step(0, SettingsChanged{settings, {}});
  for (int i = 0; i < 2; ++i) {
    const std::uint16_t port = w.Call(c, BindOp{w.Connector(c), Ip("10.0.0.1:0")}).reply.address.port();
    EXPECT_TRUE(port == 40000 || port == 40001) << port;
  }
}

}  // namespace
}  // namespace nd::core
