// SPDX-License-Identifier: Apache-2.0
// Adapters, handles and the arguments of operations: what is checked before anything changes (behaviour a.2,
// a.3), and the close of each object (b.8).
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

// A broker with one session and options that World does not offer.
class Alone {
 public:
  explicit Alone(Broker::Options options) : broker(std::move(options)) {
    Step(SessionOpened{kSession, {}});
    adapter = Call(OpenAdapterOp{}).reply.handle;
  }
  Actions Step(const Event& event) {
    Actions actions;
    broker.Step(Time(std::chrono::hours(1)), event, &actions);
    EXPECT_EQ(broker.CheckInvariants(), "");
    return actions;
  }
  Complete Call(Operation op) {
    for (const Action& action : Step(ClientOp{kSession, next_++, std::move(op)})) {
      if (const auto* complete = std::get_if<Complete>(&action)) return *complete;
    }
    ADD_FAILURE() << "no completion";
    return {};
  }
  static Broker::Options Options() {
    Broker::Options options;
    options.adapters = {TestAdapter("a0", {"10.0.0.1", "fd00::1"}), TestAdapter("a1", {"10.1.0.1"})};
    return options;
  }

  static constexpr SessionId kSession{1};
  Broker broker;
  Handle adapter;

 private:
  OpId next_ = 1;
};

TEST(Adapters, UnknownOnesAreNamed) {
  World w;
  const auto c = w.Open();
  EXPECT_EQ(w.Call(c, OpenAdapterOp{"a9", {}}).status.message(), "There is no adapter named a9.");
  EXPECT_EQ(w.Call(c, OpenAdapterOp{"", Ip("10.9.9.9")}).status.message(),
            "No adapter has the address 10.9.9.9.");
  w.Step(0, AdaptersChanged{});
  EXPECT_EQ(w.Call(c, OpenAdapterOp{}).status.message(), "There is no adapter.");
  EXPECT_TRUE(w.Call(c, ListAdaptersOp{}).reply.adapters.empty());
}

TEST(Adapters, ASessionOpensABoundedNumber) {
  World w;
  w.check_always = false;
  const auto c = w.Open();  // One is open.
  for (int i = 1; i < 1024; ++i) ASSERT_EQ(w.Try(c, OpenAdapterOp{}), SC::kSuccess) << i;
  const Complete last = w.Call(c, OpenAdapterOp{});
  EXPECT_EQ(last.status.code(), SC::kInsufficientResources);
  EXPECT_EQ(last.status.detail(), Detail::kQuota);
  EXPECT_EQ(w.Close(c, c.adapter), SC::kSuccess);
  EXPECT_EQ(w.Try(c, OpenAdapterOp{}), SC::kSuccess);
}

TEST(Adapters, ResolveAndCheckKnowTheFamilies) {
  World w;
  const auto c = w.Open(), other = w.Open(0, 1000, 0, "a1");
  EXPECT_EQ(w.Call(c, ResolveAddressOp{c.adapter, Ip("10.0.1.1:7000")}).reply.address, Ip("10.0.0.1:0"));
  EXPECT_EQ(w.Call(c, ResolveAddressOp{c.adapter, Ip("[fd00::9]:7000")}).reply.address.family(),
            Address::Family::kIpv6);
  EXPECT_EQ(w.Try(other, ResolveAddressOp{other.adapter, Ip("[fd00::9]:7000")}), SC::kNetworkUnreachable);
  EXPECT_EQ(w.Try(c, ResolveAddressOp{c.adapter, Address()}), SC::kInvalidAddress);
  const auto ipv6 = w.Call(c, ListAdaptersOp{}).reply.adapters[0].addresses[2];
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, ipv6}), SC::kSuccess);
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, Address::FromParts(Address::Family::kIpv6, "short", 0)}),
            SC::kInvalidParameter2);
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, Address()}), SC::kInvalidAddress);
}

TEST(Adapters, TheResolverOfTheHostAnswersResolveAddress) {
  Broker::Options options = Alone::Options();
  options.resolve = [](const std::string& adapter, const Address& remote) -> Result<Address> {
    EXPECT_EQ(adapter, "a0");
    if (remote.port() == 1) return Status(SC::kNetworkUnreachable, "no route");
    return Ip("10.0.0.1:99");
  };
  Alone alone(std::move(options));
  EXPECT_EQ(alone.Call(ResolveAddressOp{alone.adapter, Ip("10.9.9.9:7000")}).reply.address, Ip("10.0.0.1:0"));
  const Complete none = alone.Call(ResolveAddressOp{alone.adapter, Ip("10.9.9.9:1")});
  EXPECT_EQ(none.status.code(), SC::kNetworkUnreachable);
  EXPECT_EQ(none.status.message(), "no route");
}

TEST(Handles, WhenTheyRunOutNothingIsCreated) {
  Broker::Options options = Alone::Options();
  options.max_objects = 2;
  Alone alone(std::move(options));
  EXPECT_EQ(alone.Call(CreateConnectorOp{alone.adapter}).status.code(), SC::kSuccess);
  for (const Operation& op :
       std::vector<Operation>{OpenAdapterOp{}, CreateConnectorOp{alone.adapter},
                              CreateListenerOp{alone.adapter}, CreateQueuePairOp{alone.adapter, 1, 1, 0},
                              CreateSharedEndpointOp{alone.adapter, Ip("10.0.0.1:6000")}}) {
    const Complete full = alone.Call(op);
    EXPECT_EQ(full.status.code(), SC::kInsufficientResources);
    EXPECT_EQ(full.status.message(), "The broker has no free handles left.");
  }
  EXPECT_EQ(alone.broker.Connections().size(), 1u);
  EXPECT_TRUE(alone.broker.Ports().empty());
  EXPECT_EQ(alone.broker.UsageOf(0)[static_cast<std::size_t>(Resource::kListeners)], 0u);
}

TEST(Sessions, EndOnlyOnce) {
  Alone alone(Alone::Options());
  Actions actions = alone.Step(KillSession{Alone::kSession});
  std::size_t ends = 0;
  for (const Action& action : actions) ends += std::holds_alternative<EndSession>(action);
  EXPECT_EQ(ends, 1u);
  EXPECT_TRUE(alone.Step(KillSession{Alone::kSession}).empty());
  EXPECT_TRUE(alone.Step(ClientOp{Alone::kSession, 99, ListAdaptersOp{}}).empty())
      << "no operation is accepted";
  EXPECT_TRUE(alone.Step(ClientOp{SessionId{4242}, 1, ListAdaptersOp{}}).empty());
  EXPECT_TRUE(alone.Step(SessionClosed{SessionId{4242}}).empty());
}

// Without an owner of the broker all users share the ports. Without a way to ask for ended processes, each
// may come back.
TEST(Ports, BrokerThatKnowsNoOwnerSharesThem) {
  Broker::Options options = Alone::Options();
  options.settings.ephemeral_first = 50000;
  options.settings.ephemeral_last = 50003;
  options.leases = {{"a0", Ip("10.0.0.1:6000"), PortKind::kListener, {5, 55, 555}}};
  options.leases_until = Time(std::chrono::hours(2));
  Alone alone(std::move(options));
  const auto bind = [&](const std::string& local) {
    const Handle k = alone.Call(CreateConnectorOp{alone.adapter}).reply.handle;
    return alone.Call(BindOp{k, Ip(local)}).status.code();
  };
  EXPECT_EQ(bind("10.0.0.1:0"), SC::kSuccess);
  EXPECT_EQ(bind("10.0.0.1:6000"), SC::kSharingViolation);
  EXPECT_TRUE(alone.Step(ReleasePort{Ip("10.0.0.1:6000")}).empty()) << "it is not reserved";
}

// Nothing shows that a connection was ever handed over.
TEST(Reattach, BrokerWithoutProofsTakesNothingBack) {
  Alone alone(Alone::Options());
  const Handle qp = alone.Call(CreateQueuePairOp{alone.adapter, 1, 1, 0}).reply.handle;
  ReattachOp op{alone.adapter, qp, Ip("10.0.0.1:6000"), Ip("10.0.5.1:7000"), {1, 1}, false};
  EXPECT_EQ(alone.Call(op).status.code(), SC::kAccessDenied);
}

TEST(Reattach, ChecksItsArgumentsAndTakesNothing) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const auto& c = up.a;
  const ReattachOp good = w.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false);
  const auto code = [&](auto change) {
    ReattachOp op = good;
    change(op);
    return w.Try(c, op);
  };
  EXPECT_EQ(code([](ReattachOp& op) { op.adapter = Handle{4242}; }), SC::kInvalidHandle);
  EXPECT_EQ(code([&](ReattachOp& op) {
              op.adapter = w.Call(c, OpenAdapterOp{"a1", {}}).reply.handle;
            }),
            SC::kInvalidParameter2);
  EXPECT_EQ(code([](ReattachOp& op) { op.local = Ip("9.9.9.9:6100"); }), SC::kInvalidAddress);
  EXPECT_EQ(code([](ReattachOp& op) { op.local.set_port(0); }), SC::kInvalidAddress);
  EXPECT_EQ(code([](ReattachOp& op) { op.remote = Address(); }), SC::kInvalidAddress);
  EXPECT_EQ(code([](ReattachOp& op) { op.remote = Ip("[fd00::9]:7000"); }), SC::kInvalidAddress);
  EXPECT_EQ(code([](ReattachOp& op) { op.remote = Ip("0.0.0.0:7000"); }), SC::kInvalidAddress);
  EXPECT_EQ(code([](ReattachOp& op) { op.remote = Ip("224.0.0.1:7000"); }), SC::kInvalidAddress);
  EXPECT_EQ(code([&](ReattachOp& op) { op.queue_pair = up.aq; }), SC::kConnectionActive);
  auto adapters = w.broker(0).Adapters();
  adapters[0].description.client_disconnects = false;
  w.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
  EXPECT_EQ(w.Try(c, good), SC::kNotSupported);
  w.Step(0, SetAdapter{"a0", false});
  w.Step(0, SetAdapter{"a0", true});
  EXPECT_EQ(w.Try(c, good), SC::kDeviceRemoved) << "its queue pair is gone";
  EXPECT_EQ(w.broker(0).Connections().size(), 1u);
  EXPECT_EQ(w.broker(0).Ports().size(), 1u);
}

TEST(Reattach, MakesTheQueuePairOfItsConnection) {
  World w;
  const auto c = w.Open();
  ReattachOp op = w.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false);
  ASSERT_EQ(w.Close(c, std::exchange(op.queue_pair, {})), SC::kSuccess);
  w.Qp(c);  // Has the first slot.
  op.receive_depth = 5;
  op.initiator_depth = 6;
  op.device_number = 7;
  const Complete back = w.Call(c, op);
  ASSERT_TRUE(back.status.ok());
  const auto rows = w.broker().QueuePairs();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].id, back.reply.queue_pair);
  EXPECT_EQ(rows[1].connection, back.reply.handle);
  EXPECT_EQ(rows[1].receive_depth, 5u);
  EXPECT_EQ(rows[1].initiator_depth, 6u);
  EXPECT_EQ(rows[1].device_number, 7u);
  EXPECT_EQ(back.reply.counter_slot, 1u);
  // It is a queue pair like every other.
  EXPECT_EQ(w.Try(c, w.Returning(c, "10.0.0.1:6101", "10.0.5.1:7000", false)), SC::kSuccess);
  op.queue_pair = back.reply.queue_pair;
  EXPECT_EQ(w.Try(c, op), SC::kConnectionActive);
}

TEST(Reattach, MakesNoQueuePairForAConnectionThatDoesNotComeBack) {
  World w;
  const auto c = w.Open(), other = w.Open(0, 1001);
  w.Bound(other, "10.0.0.1:6200");
  ReattachOp good = w.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false);
  ReattachOp taken = w.Returning(c, "10.0.0.1:6200", "10.0.5.1:7000", false);
  for (ReattachOp* const op : {&good, &taken}) {
    ASSERT_EQ(w.Close(c, std::exchange(op->queue_pair, {})), SC::kSuccess);
  }
  const auto code = [&](auto change) {
    ReattachOp op = good;
    change(op);
    const Complete done = w.Call(c, op);
    EXPECT_FALSE(done.reply.queue_pair);
    return done.status.code();
  };
  EXPECT_EQ(code([](ReattachOp& op) { op.receive_depth = 1025; }), SC::kInvalidParameter5);
  EXPECT_EQ(code([](ReattachOp& op) { op.initiator_depth = 1025; }), SC::kInvalidParameter6);
  EXPECT_EQ(code([](ReattachOp& op) { op.proof.clear(); }), SC::kAccessDenied);
  EXPECT_EQ(code([&](ReattachOp& op) { op = taken; }), SC::kSharingViolation);
  EXPECT_TRUE(w.broker().QueuePairs().empty());
  EXPECT_EQ(w.broker().Connections().size(), 1u) << "that of the other user";
  EXPECT_EQ(w.Try(c, good), SC::kSuccess);
}

TEST(Reattach, CountsItsQueuePairAgainstTheQuota) {
  Rule rule;
  rule.limits.queue_pairs = 1;
  World w(1, {}, Policy({rule}));
  const auto c = w.Open();
  ReattachOp op = w.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false);
  const Handle only = std::exchange(op.queue_pair, {});
  EXPECT_EQ(w.Try(c, op), SC::kInsufficientResources);
  EXPECT_TRUE(w.broker().Ports().empty());
  EXPECT_TRUE(w.broker().Connections().empty());
  EXPECT_EQ(w.Close(c, only), SC::kSuccess);
  EXPECT_EQ(w.Try(c, op), SC::kSuccess);
}

TEST(Reattach, CountsAgainstTheQuota) {
  Rule rule;
  rule.limits.connectors = 0;
  World w(1, {}, Policy({rule}));
  const auto c = w.Open();
  EXPECT_EQ(w.Try(c, w.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false)), SC::kInsufficientResources);
  EXPECT_TRUE(w.broker().Ports().empty());
}

// A connection rejoins the endpoint or listener of its session that holds its port; each kind takes back only
// its own connections.
TEST(Reattach, OntoThePortOfItsOwnHolder) {
  for (const bool passive : {false, true}) {
    World w;
    const auto c = w.Open();
    const Handle listener = w.Listener(c, "10.0.0.1:7000"), endpoint = w.Endpoint(c, "10.0.0.1:6000");
    const std::string own = passive ? "10.0.0.1:7000" : "10.0.0.1:6000";
    const std::string of_the_other = passive ? "10.0.0.1:6000" : "10.0.0.1:7000";
    EXPECT_EQ(w.Try(c, w.Returning(c, own, "10.0.5.1:7000", passive)), SC::kSuccess);
    EXPECT_EQ(w.Try(c, w.Returning(c, of_the_other, "10.0.5.1:7000", passive)), SC::kSharingViolation);
    // A closing object takes no connection back. The first connection keeps the port.
    w.Submit(c, CloseOp{passive ? listener : endpoint});
    EXPECT_EQ(w.Try(c, w.Returning(c, own, "10.0.5.2:7000", passive)), SC::kSharingViolation);
  }
}

TEST(Connect, ChecksSourceAndEndpoint) {
  World w(2);
  const auto c = w.Open(0), other = w.Open(0);
  const Handle k = w.Connector(c), qp = w.Qp(c);
  ConnectOp op{k, qp, Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}};
  op.source = Address::FromParts(Address::Family::kIpv4, "abc", 1);
  EXPECT_EQ(w.Try(c, op), SC::kInvalidAddress);
  op.source.reset();
  const Handle a1 = w.Call(c, OpenAdapterOp{"a1", {}}).reply.handle;
  op.shared_endpoint = w.Call(c, CreateSharedEndpointOp{a1, Ip("10.1.0.1:6000")}).reply.handle;
  EXPECT_EQ(w.Try(c, op), SC::kInvalidParameter2);
  EXPECT_EQ(w.State(c, k), ConnectorState::kUnbound) << "nothing was consumed";
  op.shared_endpoint = w.Endpoint(c, "10.0.0.1:6000");
  op.source = Ip("10.0.0.1:6001");
  EXPECT_EQ(w.Try(c, op), SC::kInvalidParameterMix);
}

TEST(GetConnectionRequest, TakesAConnectorOfTheListenersAdapter) {
  World w;
  const auto c = w.Open();
  const Handle l = w.Listener(c, "10.0.0.1:7000");
  const Handle a1 = w.Call(c, OpenAdapterOp{"a1", {}}).reply.handle;
  const Handle k = w.Call(c, CreateConnectorOp{a1}).reply.handle;
  EXPECT_EQ(w.Try(c, GetConnectionRequestOp{l, k}), SC::kInvalidParameter2);
  EXPECT_EQ(w.State(c, k), ConnectorState::kUnbound);
}

TEST(ListenArguments, AddressIsChecked) {
  World w;
  const auto c = w.Open();
  const Handle l = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  EXPECT_EQ(w.Try(c, ListenOp{l, 0, Address::FromParts(Address::Family::kIpv4, "abc", 1), false}),
            SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, ListenOp{l, 0, Ip("9.9.9.9:1"), false}), SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, ListenOp{l, 0, Ip("10.0.0.1:7000"), false}), SC::kSuccess);
}

// c.16: the switch of [compat].
TEST(Notify, CompletesWithSuccessAtALocalDisconnectWithTheSwitch) {
  Settings settings;
  settings.notify_success_on_local_disconnect = true;
  World w(2, settings);
  const World::Up up = w.Pair(Stage::kConnected);
  const OpId notify = w.Submit(up.a, NotifyDisconnectOp{up.ac});
  EXPECT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kSuccess);
  EXPECT_EQ(w.Code(up.a, notify), SC::kSuccess);
}

// c.35: the ND2 form of the queue pair's close, in the states after the connection.
TEST(Close, QueuePairEndsAConnectionThatItsPeerHasClosed) {
  World w(2);
  const World::Up up = w.Pair(Stage::kPeerClosed);
  EXPECT_EQ(w.Close(up.p, up.pq), SC::kSuccess);
  EXPECT_EQ(w.State(up.p, up.pc), ConnectorState::kDead);
  EXPECT_EQ(w.Try(up.p, DisconnectOp{up.pc}), SC::kConnectionInvalid);
  EXPECT_EQ(w.Close(up.a, up.aq), SC::kSuccess) << "of a connector that disconnected";
  EXPECT_TRUE(w.broker(0).QueuePairs().empty());
  EXPECT_TRUE(w.broker(1).QueuePairs().empty());
}

TEST(Close, OfTheQueuePairWaitsForItsConnectorInNdk) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const OpId close = w.Submit(up.a, CloseOp{up.aq, true});
  EXPECT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kSuccess);
  EXPECT_EQ(w.Code(up.a, close), SC::kPending) << "until the connector is closed";
  EXPECT_EQ(w.Try(up.a, CloseOp{up.aq, false}), SC::kInvalidHandle) << "closed twice";
  EXPECT_EQ(w.Try(up.a, CancelOp{up.aq}), SC::kInvalidHandle);
  EXPECT_EQ(w.Close(up.a, up.ac), SC::kSuccess);
  EXPECT_EQ(w.Code(up.a, close), SC::kSuccess);
}

TEST(Close, HandleOfAnObjectThatClosesIsInvalid) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  w.clients_answer = false;
  w.Submit(up.a, CloseOp{up.ac});
  w.Submit(up.p, CloseOp{up.listener});
  EXPECT_EQ(w.Try(up.a, BindOp{up.ac, Ip("10.0.0.1:6500")}), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(up.a, GetLocalAddressOp{up.ac}), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(up.a, CancelOp{up.ac}), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(up.a, CloseOp{up.ac, false}), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(up.p, GetLocalAddressOp{up.listener}), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(up.p, ListenOp{up.listener}), SC::kInvalidHandle);
}

TEST(Expiry, EndsTheReplyThatTheApplicationDoesNotTake) {
  Settings settings;
  settings.establish_timeout = std::chrono::seconds(10);
  World w(2, settings);
  const auto a = w.Open(0), p = w.Open(1);
  const Handle l = w.Listener(p, "10.0.1.1:7000"), c = w.Bound(a, "10.0.0.1:6000");
  const OpId connect = w.Connect(a, c, w.Qp(a), "10.0.1.1:7000");
  w.Advance(std::chrono::seconds(5));
  const Handle k = w.Incoming(p, l);  // Its time begins with the Accept.
  w.Submit(p, AcceptOp{k, w.Qp(p), {1, 1}, {}, 0, false});
  ASSERT_EQ(w.Code(a, connect), SC::kSuccess);
  w.Advance(std::chrono::seconds(6));
  EXPECT_EQ(w.State(a, c), ConnectorState::kDead);
  const Complete complete = w.Call(a, CompleteConnectOp{c, false});
  EXPECT_EQ(complete.status.code(), SC::kIoTimeout);
  EXPECT_EQ(complete.status.detail(), Detail::kLocalAdministrator);
  EXPECT_EQ(w.Try(a, CompleteConnectOp{c, false}), SC::kConnectionInvalid) << "it is told once";
  EXPECT_EQ(w.State(p, k), ConnectorState::kDead) << "the peer withdrew";
}

TEST(CounterSlots, LowestFreeOneIsNextAndNoneIsUsedTwice) {
  World w;
  const auto c = w.Open();
  const auto create = [&] { return w.Call(c, CreateQueuePairOp{c.adapter, 1, 1, 0}).reply; };
  const Reply first = create(), second = create(), third = create();
  EXPECT_EQ(first.counter_slot, 0u);
  EXPECT_EQ(second.counter_slot, 1u);
  EXPECT_EQ(third.counter_slot, 2u);
  w.Close(c, second.handle);
  w.Close(c, first.handle);
  EXPECT_EQ(create().counter_slot, 0u);
  EXPECT_EQ(create().counter_slot, 1u);
  EXPECT_EQ(create().counter_slot, 3u);
}

}  // namespace
}  // namespace nd::core
