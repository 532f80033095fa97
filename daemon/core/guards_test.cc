// SPDX-License-Identifier: Apache-2.0
// The checks that precede the state of an object: which handle an operation may name, and what it may name of
// an adapter that is gone.
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;
using Stage = World::Stage;

struct Named {
  const char* name;
  Operation op;
};

// Every operation on connector `c`; the other handles are valid.
std::vector<Named> OnConnector(Handle c, Handle qp, Handle listener) {
  return {{"Bind", BindOp{c, Ip("10.0.0.1:6500")}},
          {"Connect", ConnectOp{c, qp, Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}}},
          {"CompleteConnect", CompleteConnectOp{c, false}},
          {"Accept", AcceptOp{c, qp, {1, 1}, {}, 0, false}},
          {"Reject", RejectOp{c, {}, 0}},
          {"GetReadLimits", GetReadLimitsOp{c}},
          {"GetPrivateData", GetPrivateDataOp{c}},
          {"GetLocalAddress", GetLocalAddressOp{c}},
          {"GetPeerAddress", GetPeerAddressOp{c}},
          {"NotifyDisconnect", NotifyDisconnectOp{c}},
          {"Disconnect", DisconnectOp{c}},
          {"GetConnectionRequest", GetConnectionRequestOp{listener, c}},
          {"TransportReport", TransportReportOp{c, TransportReportOp::What::kPeerClosed, {}, {}}}};
}

std::vector<Named> OnListener(Handle l, Handle connector) {
  return {{"Bind", BindOp{l, Ip("10.0.0.1:6500")}},
          {"Listen", ListenOp{l}},
          {"GetConnectionRequest", GetConnectionRequestOp{l, connector}},
          {"ControlConnectEvents", ControlConnectEventsOp{l, true}},
          {"GetLocalAddress", GetLocalAddressOp{l}}};
}

TEST(Guards, AnOperationNamesAnObjectOfItsSessionAndKind) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const auto thief = w.Open(0, 1000);
  const Handle qp = w.Qp(thief), listener = w.Listener(thief, "10.0.0.2:7100"), own = w.Connector(thief);
  const Handle closed = w.Connector(thief);
  w.Close(thief, closed);
  for (const Handle bad : {Handle{}, Handle{0xFFFFFFFFFFFFFFFF}, up.ac, up.aq, qp, thief.adapter, closed}) {
    for (const Named& on : OnConnector(bad, qp, listener)) {
      EXPECT_EQ(w.Try(thief, on.op), SC::kInvalidHandle) << on.name << " of " << bad.value;
    }
  }
  for (const Handle bad : {Handle{}, up.listener, own, qp, closed}) {
    for (const Named& on : OnListener(bad, own)) {
      const bool of_connectors =
          bad == own && (std::string(on.name) == "Bind" || std::string(on.name) == "GetLocalAddress");
      if (of_connectors) continue;
      EXPECT_EQ(w.Try(thief, on.op), SC::kInvalidHandle) << on.name << " of " << bad.value;
    }
  }
  for (const Handle bad : {Handle{}, up.ac, up.aq, closed}) {
    EXPECT_EQ(w.Try(thief, CancelOp{bad}), SC::kInvalidHandle) << bad.value;
    EXPECT_EQ(w.Try(thief, CloseOp{bad, false}), SC::kInvalidHandle) << bad.value;
    EXPECT_EQ(w.Try(thief, CreateConnectorOp{bad}), SC::kInvalidHandle) << bad.value;
    EXPECT_EQ(w.Try(thief, CreateListenerOp{bad}), SC::kInvalidHandle) << bad.value;
    EXPECT_EQ(w.Try(thief, CreateQueuePairOp{bad, 1, 1, 0}), SC::kInvalidHandle) << bad.value;
    EXPECT_EQ(w.Try(thief, CreateSharedEndpointOp{bad, Ip("10.0.0.1:9999")}), SC::kInvalidHandle);
    EXPECT_EQ(w.Try(thief, CheckAddressOp{bad, Ip("10.0.0.1:1")}), SC::kInvalidHandle);
    EXPECT_EQ(w.Try(thief, ResolveAddressOp{bad, Ip("10.0.1.1:1")}), SC::kInvalidHandle);
    // The other handles of Connect, Accept and Reattach.
    for (const Named& on : OnConnector(own, bad, listener)) {
      if (std::string(on.name) != "Connect" && std::string(on.name) != "Accept") continue;
      EXPECT_EQ(w.Try(thief, on.op), SC::kInvalidHandle) << on.name << " with " << bad.value;
    }
    if (!bad) continue;  // No endpoint is given, and Reattach makes its queue pair.
    ReattachOp back = w.Returning(thief, "10.0.0.1:6100", "10.0.5.1:7000", false);
    back.queue_pair = bad;
    EXPECT_EQ(w.Try(thief, back), SC::kInvalidHandle);
    ConnectOp shared{own, qp, Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}};
    shared.shared_endpoint = bad;
    EXPECT_EQ(w.Try(thief, shared), SC::kInvalidHandle);
  }
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnected) << "nothing touched it";
}

TEST(Guards, AnAdapterThatIsGoneTakesItsObjectsWithIt) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnected);
  const Handle idle = w.Connector(up.a), listener = w.Listener(up.a, "10.0.0.2:7100"), qp = w.Qp(up.a);
  const Handle endpoint = w.Endpoint(up.a, "10.0.0.1:9999");
  w.Step(0, SetAdapter{"a0", false});
  w.Step(0, SetAdapter{"a0", true});
  for (const Handle gone : {up.ac, idle}) {
    for (const Named& on : OnConnector(gone, qp, listener)) {
      // A late report is accepted and has no effect.
      if (std::string(on.name) == "TransportReport") continue;
      EXPECT_EQ(w.Try(up.a, on.op), SC::kDeviceRemoved) << on.name;
    }
    EXPECT_EQ(w.Try(up.a, CancelOp{gone}), SC::kSuccess);
  }
  for (const Named& on : OnListener(listener, idle)) {
    EXPECT_EQ(w.Try(up.a, on.op), SC::kDeviceRemoved) << on.name;
  }
  EXPECT_EQ(w.Try(up.a, GetLocalAddressOp{endpoint}), SC::kDeviceRemoved);
  // An operation names several objects; each of them in turn is the removed one.
  const Handle opened = w.Call(up.a, OpenAdapterOp{"a0", {}}).reply.handle;
  const Handle live = w.Call(up.a, CreateConnectorOp{opened}).reply.handle;
  const Handle live_qp = w.Call(up.a, CreateQueuePairOp{opened, 1, 1, 0}).reply.handle;
  const Handle live_listener = w.Call(up.a, CreateListenerOp{opened}).reply.handle;
  ASSERT_EQ(w.Try(up.a, BindOp{live, Ip("10.0.0.1:6600")}), SC::kSuccess);
  ASSERT_EQ(w.Try(up.a, BindOp{live_listener, Ip("10.0.0.1:7200")}), SC::kSuccess);
  ASSERT_EQ(w.Try(up.a, ListenOp{live_listener}), SC::kSuccess);
  EXPECT_EQ(w.Try(up.a, ConnectOp{live, qp, Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}}), SC::kDeviceRemoved);
  EXPECT_EQ(w.Try(up.a, AcceptOp{live, qp, {1, 1}, {}, 0, false}), SC::kDeviceRemoved);
  EXPECT_EQ(w.Try(up.a, GetConnectionRequestOp{live_listener, idle}), SC::kDeviceRemoved);
  ConnectOp shared{live, live_qp, Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}};
  shared.shared_endpoint = endpoint;
  EXPECT_EQ(w.Try(up.a, shared), SC::kDeviceRemoved);
  EXPECT_EQ(w.State(up.a, live), ConnectorState::kBound) << "nothing was consumed";
}

// Only a listener may have a wildcard address.
TEST(Guards, WildcardIsNoLocalAddressOfAConnection) {
  World w;
  const auto c = w.Open();
  EXPECT_EQ(w.Try(c, OpenAdapterOp{"", Ip("0.0.0.0:0")}), SC::kInvalidParameter);
  EXPECT_EQ(w.Try(c, CheckAddressOp{c.adapter, Ip("0.0.0.0:0")}), SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, CreateSharedEndpointOp{c.adapter, Ip("0.0.0.0:6000")}), SC::kInvalidAddress);
  EXPECT_EQ(w.Try(c, w.Returning(c, "0.0.0.0:6000", "10.0.5.1:7000", false)), SC::kInvalidAddress);
  ConnectOp op{w.Connector(c), w.Qp(c), Ip("10.0.5.1:7000"), {1, 1}, {}, 0, {}, {}};
  op.source = Ip("0.0.0.0:6000");
  EXPECT_EQ(w.Try(c, op), SC::kInvalidAddress);
}

TEST(Guards, ListenerWithoutRequestsToGetSaysWhy) {
  World w;
  const auto c = w.Open();
  const Handle bound = w.Call(c, CreateListenerOp{c.adapter}).reply.handle;
  ASSERT_EQ(w.Try(c, BindOp{bound, Ip("10.0.0.1:7000")}), SC::kSuccess);
  const Handle events = w.NdkListener(c, "10.0.0.1:7001");
  const auto why = [&](Handle listener) {
    return w.Call(c, GetConnectionRequestOp{listener, w.Connector(c)}).status.message();
  };
  EXPECT_EQ(why(bound), "The listener does not listen.");
  EXPECT_EQ(why(events), "The listener delivers its requests as events.");
}

TEST(Guards, PrivilegedPortsEndBelowTheirBound) {
  Settings settings;
  settings.privileged_ports_below = 1024;
  World w(1, settings);
  const auto user = w.Open(0, 1000), root = w.Open(0, 0);
  EXPECT_EQ(w.Try(user, BindOp{w.Connector(user), Ip("10.0.0.1:1023")}), SC::kAccessDenied);
  EXPECT_EQ(w.Try(user, BindOp{w.Connector(user), Ip("10.0.0.1:1024")}), SC::kSuccess);
  EXPECT_EQ(w.Try(root, BindOp{w.Connector(root), Ip("10.0.0.1:1023")}), SC::kSuccess);
}

// A client that knows extensions says so in its Hello; the wire is told for each of its attempts.
TEST(Guards, ExtensionsAreThoseOfTheClient) {
  World w(2);
  const auto open = [&w](int host, SessionId id, bool extensions) {
    Identity who;
    who.uid = 1000;
    if (extensions) who.features = session::kClientExtensions;
    w.Step(host, SessionOpened{id, who});
    World::Client client{host, id, {}, 1000, "a0"};
    client.adapter = w.Call(client, OpenAdapterOp{"a0", {}}).reply.handle;
    return client;
  };
  const auto old = open(0, SessionId{901}, false), knows = open(0, SessionId{902}, true);
  const auto server = open(1, SessionId{903}, true);
  const Handle listener = w.Listener(server, "10.0.1.1:7000");
  for (const World::Client& client : {old, knows}) {
    w.Connect(client, w.Bound(client, "10.0.0.1:0"), w.Qp(client), "10.0.1.1:7000");
    w.Submit(server, AcceptOp{w.Incoming(server, listener), w.Qp(server), {1, 1}, {}, 0, false});
  }
  ASSERT_EQ(w.Seen<CmConnect>(0).size(), 2u);
  EXPECT_FALSE(w.Seen<CmConnect>(0)[0].params.extensions);
  EXPECT_TRUE(w.Seen<CmConnect>(0)[1].params.extensions);
  ASSERT_EQ(w.Seen<CmAccept>(1).size(), 2u);
  EXPECT_TRUE(w.Seen<CmAccept>(1)[0].params.extensions);
}

// The handle of an endpoint that waits for its port is not known to its client yet.
TEST(Guards, EndpointThatWaitsForItsPortCannotBeUsed) {
  World w;
  w.KeepPorts();
  const auto c = w.Open();
  const Handle qp = w.Qp(c), connector = w.Connector(c);
  w.answer_reserves = false;
  const OpId create = w.Submit(c, CreateSharedEndpointOp{c.adapter, Ip("10.0.0.1:6000")});
  ASSERT_EQ(w.Code(c, create), SC::kPending);
  ConnectOp op{connector, qp, Ip("10.0.5.1:7000"), {1, 1}, {}, 0, {}, {}};
  op.shared_endpoint = w.broker().Endpoints()[0].id;
  EXPECT_EQ(w.Try(c, op), SC::kInvalidHandle);
  EXPECT_EQ(w.Try(c, GetLocalAddressOp{op.shared_endpoint}), SC::kInvalidHandle);
}

// The attempt begins with the submission of Connect or Accept. A queue pair that was connected cannot be used
// again.
TEST(Guards, AQueuePairTakesPartInOneAttempt) {
  World w(2);
  const World::Up up = w.Pair(Stage::kConnecting);
  const auto again = [&](Handle connector) {
    return w.Try(up.a, ConnectOp{connector, up.aq, Ip("10.0.1.1:7000"), {1, 1}, {}, 0, {}, {}});
  };
  const Handle second = w.Bound(up.a, "10.0.0.1:6001");
  EXPECT_EQ(again(second), SC::kConnectionActive);
  EXPECT_EQ(w.State(up.a, second), ConnectorState::kDead);
  EXPECT_EQ(w.State(up.a, up.ac), ConnectorState::kConnecting) << "the pending one goes on";
  const Handle incoming = w.Incoming(up.p, up.listener);
  w.Submit(up.p, AcceptOp{incoming, up.pq, {1, 1}, {}, 0, false});
  EXPECT_EQ(again(w.Bound(up.a, "10.0.0.1:6002")), SC::kConnectionActive);
  ASSERT_EQ(w.Try(up.a, CompleteConnectOp{up.ac, false}), SC::kSuccess);
  EXPECT_EQ(again(w.Bound(up.a, "10.0.0.1:6003")), SC::kConnectionActive);
  ASSERT_EQ(w.Try(up.a, DisconnectOp{up.ac}), SC::kSuccess);
  EXPECT_EQ(again(w.Bound(up.a, "10.0.0.1:6004")), SC::kInvalidDeviceState);
}

TEST(Guards, AQueuePairMayHaveTheDepthsOfItsAdapter) {
  World w;
  const auto c = w.Open();
  const AdapterInfo info = w.broker().Adapters()[0].description.info;
  const std::uint32_t receive = info.max_receive_queue_depth, initiator = info.max_initiator_queue_depth;
  const auto create = [&](std::uint32_t receives, std::uint32_t initiators) {
    return w.Try(c, CreateQueuePairOp{c.adapter, receives, initiators, 0});
  };
  EXPECT_EQ(create(receive, initiator), SC::kSuccess);
  EXPECT_EQ(create(receive + 1, initiator), SC::kInvalidParameter5);
  EXPECT_EQ(create(receive, initiator + 1), SC::kInvalidParameter6);
}

// A re-attached connection has no state before the host has granted its port.
TEST(Guards, NothingCanBeDoneWithAConnectionThatIsComingBack) {
  World w(2);
  w.KeepPorts();
  const auto c = w.Open();
  const Handle qp = w.Qp(c), listener = w.Listener(c, "10.0.0.2:7100");
  w.answer_reserves = false;
  const ReattachOp back = w.Returning(c, "10.0.0.1:6100", "10.0.5.1:7000", false);
  const OpId coming = w.Submit(c, back);
  ASSERT_EQ(w.Code(c, coming), SC::kPending);
  const std::vector<ConnectionRow> rows = w.broker().Connections();
  ASSERT_EQ(rows.size(), 1u);
  for (const Named& on : OnConnector(rows[0].id, qp, listener)) {
    if (std::string(on.name) == "Bind") continue;  // ADDRESS_ALREADY_ASSOCIATED: it has one.
    EXPECT_EQ(w.Try(c, on.op), SC::kInvalidHandle) << on.name;
  }
  EXPECT_EQ(w.Code(c, coming), SC::kPending);
  w.Step(0, CmReserved{w.Seen<CmReserve>().back().endpoint, {}});
  ASSERT_EQ(w.Code(c, coming), SC::kSuccess);
  EXPECT_EQ(w.Result(c, coming).reply.handle, rows[0].id);
  EXPECT_EQ(w.Try(c, GetPeerAddressOp{rows[0].id}), SC::kSuccess);
}

}  // namespace
}  // namespace nd::core
