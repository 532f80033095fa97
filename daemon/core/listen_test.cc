// SPDX-License-Identifier: Apache-2.0
// Listeners, backlog and pause (behaviour d.2), and shared endpoints (d.8).
#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;

class Listen : public ::testing::Test {
 protected:
  explicit Listen(const Settings& s = {}) : w(2, s) {
    a = w.Open(0);
    p = w.Open(1);
  }
  OpId Dial(const std::string& data = "", const std::string& to = "10.0.1.1:7000") {
    return w.Connect(a, w.Bound(a, "10.0.0.1:0"), w.Qp(a), to, data);
  }
  Detail Why(OpId id) { return w.Result(a, id).status.detail(); }
  World w;
  World::Client a, p;
};

TEST_F(Listen, ND_031_To_036_WrongStates) {
  const Handle l = w.Call(p, CreateListenerOp{p.adapter}).reply.handle;
  const Handle k = w.Connector(p);
  EXPECT_EQ(w.Try(p, ListenOp{l, 0, {}, false}), SC::kInvalidDeviceState);
  EXPECT_EQ(w.Try(p, BindOp{l, Ip("10.0.1.1:0")}), SC::kSuccess);
  EXPECT_EQ(w.Try(p, BindOp{l, Ip("10.0.1.1:0")}), SC::kAddressAlreadyAssociated);
  EXPECT_EQ(w.Try(p, GetLocalAddressOp{l}), SC::kInvalidDeviceState);
  EXPECT_EQ(w.Try(p, GetConnectionRequestOp{l, k}), SC::kInvalidDeviceState);
  EXPECT_EQ(w.Try(p, ControlConnectEventsOp{l, true}), SC::kInvalidDeviceState);
  EXPECT_EQ(w.Try(p, ListenOp{l, 0, {}, false}), SC::kSuccess);
  EXPECT_GE(w.Call(p, GetLocalAddressOp{l}).reply.address.port(), 49152);
  const Complete again = w.Call(p, ListenOp{l, 0, {}, false});
  EXPECT_EQ(again.status, SC::kInvalidDeviceState);
  EXPECT_EQ(again.status.message(), "The listener listens already.");
  EXPECT_EQ(w.Try(p, GetConnectionRequestOp{l, w.Bound(p, "10.0.1.1:0")}), SC::kConnectionActive);
}

TEST_F(Listen, RemovedAdapterDeliversNoRequest) {
  const Handle l = w.Listener(p, "10.0.1.1:7000"), k = w.Connector(p);
  w.Step(1, SetAdapter{"a0", false});
  EXPECT_EQ(w.Try(p, GetConnectionRequestOp{l, k}), SC::kDeviceRemoved);
}

TEST_F(Listen, ND_037_To_042_GetConnectionRequest) {
  const Handle l = w.Listener(p, "10.0.1.1:7000");
  std::vector<Handle> k;
  std::vector<OpId> gets;
  for (int i = 0; i < 5; ++i) {
    k.push_back(w.Connector(p));
    gets.push_back(w.Submit(p, GetConnectionRequestOp{l, k.back()}));
    EXPECT_EQ(w.Code(p, gets.back()), SC::kPending);
  }
  for (int i = 0; i < 3; ++i) Dial(std::to_string(i));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(w.Code(p, gets[i]), SC::kSuccess);
    EXPECT_EQ(w.Call(p, GetPrivateDataOp{k[i]}).reply.private_data, Data(std::to_string(i)));
    EXPECT_EQ(w.State(p, k[i]), ConnectorState::kIncoming);
  }
  EXPECT_EQ(w.Try(p, CancelOp{l}), SC::kSuccess);
  EXPECT_EQ(w.Code(p, gets[3]), SC::kCanceled);
  EXPECT_EQ(w.Code(p, gets[4]), SC::kCanceled);
  const OpId again = w.Submit(p, GetConnectionRequestOp{l, k[3]});
  EXPECT_EQ(w.Code(p, again), SC::kPending);
  const OpId close = w.Submit(p, CloseOp{l, false});
  EXPECT_EQ(w.Code(p, again), SC::kCanceled);
  EXPECT_EQ(w.Code(p, close), SC::kPending);
  const OpId refused = Dial();
  EXPECT_EQ(w.Code(a, refused), SC::kConnectionRefused);
  EXPECT_EQ(Why(refused), Detail::kNoListener);
}

TEST_F(Listen, ND_044_045_046_049_Backlog) {
  const Handle l = w.Listener(p, "10.0.1.1:7000", 2);
  const Handle c1 = w.Bound(a, "10.0.0.1:0");
  const OpId one = w.Connect(a, c1, w.Qp(a), "10.0.1.1:7000"), two = Dial(), three = Dial();
  EXPECT_EQ(w.Code(a, one), SC::kPending);
  EXPECT_EQ(w.Code(a, two), SC::kPending);
  EXPECT_EQ(w.Code(a, three), SC::kConnectionRefused);
  EXPECT_EQ(Why(three), Detail::kBacklogFull);
  EXPECT_TRUE(w.Result(a, three).status.retryable());
  w.Incoming(p, l);  // The request was delivered, so it no longer counts.
  EXPECT_EQ(w.Code(a, Dial()), SC::kPending);
  EXPECT_EQ(w.Code(a, Dial()), SC::kConnectionRefused);
  EXPECT_EQ(w.Close(a, c1), SC::kSuccess);
  EXPECT_EQ(w.Code(a, Dial()),
            SC::kConnectionRefused);  // That request was delivered; it freed no place in the queue.
  EXPECT_EQ(w.broker(1).Listeners()[0].refused, 3u);
  EXPECT_EQ(w.broker(1).Listeners()[0].backlog_used, 2u);
}

TEST_F(Listen, ND_046_WithdrawnRequestFreesItsPlace) {
  w.Listener(p, "10.0.1.1:7000", 1);
  const Handle c1 = w.Bound(a, "10.0.0.1:0");
  w.Connect(a, c1, w.Qp(a), "10.0.1.1:7000");
  EXPECT_EQ(w.Code(a, Dial()), SC::kConnectionRefused);
  EXPECT_EQ(w.Try(a, CancelOp{c1}), SC::kSuccess);
  EXPECT_EQ(w.Code(a, Dial()), SC::kPending);
}

TEST_F(Listen, ND_047_500WaitWithoutLimit) {
  w.check_always = false;
  w.Listener(p, "10.0.1.1:7000");
  std::vector<OpId> all;
  for (int i = 0; i < 500; ++i) all.push_back(Dial());
  EXPECT_EQ(w.broker(1).Listeners()[0].backlog_used,
            224u);                     // The share of one user of the flights.
  w.Advance(std::chrono::seconds(2));  // A slow application does not delay the rest.
  EXPECT_EQ(w.broker(1).Listeners()[0].backlog_used, 500u);
  w.Advance(std::chrono::hours(10));  // ND_060
  for (const OpId id : all) EXPECT_EQ(w.Code(a, id), SC::kPending);
}

TEST(ListenCap, ND_048_DaemonCap) {
  Settings s;
  s.max_backlog = 64;
  World w(2, s);
  const auto a = w.Open(0), p = w.Open(1);
  w.Listener(p, "10.0.1.1:7000", 100000);
  for (int i = 0; i < 65; ++i) {
    const OpId id = w.Connect(a, w.Bound(a, "10.0.0.1:0"), w.Qp(a), "10.0.1.1:7000");
    EXPECT_EQ(w.Code(a, id), i < 64 ? SC::kPending : SC::kConnectionRefused);
  }
}

TEST_F(Listen, ND_050_To_053_Pause) {
  const Handle l = w.Listener(p, "10.0.1.1:7000");
  const OpId queued = Dial();
  EXPECT_EQ(w.Try(p, ControlConnectEventsOp{l, true}), SC::kSuccess);
  EXPECT_EQ(w.Try(p, ControlConnectEventsOp{l, true}), SC::kSuccess);
  EXPECT_EQ(w.broker(1).Listeners()[0].state, "paused");
  const OpId refused = Dial();
  EXPECT_EQ(w.Code(a, refused), SC::kConnectionRefused);
  EXPECT_EQ(Why(refused), Detail::kPaused);
  const Handle l2 = w.Call(p, CreateListenerOp{p.adapter}).reply.handle;
  EXPECT_EQ(w.Try(p, ListenOp{l2, 0, Ip("10.0.1.1:7000"), false}), SC::kSharingViolation);
  EXPECT_EQ(w.Try(p, AcceptOp{w.Incoming(p, l), w.Qp(p), {1, 1}, {}, 0, false}), SC::kPending);
  EXPECT_EQ(w.Code(a, queued), SC::kSuccess);
  EXPECT_EQ(w.Try(p, ControlConnectEventsOp{l, false}), SC::kSuccess);
  EXPECT_EQ(w.Code(a, Dial()), SC::kPending);
}

TEST_F(Listen, ND_054_Wildcard) {
  const Handle l = w.Listener(p, "0.0.0.0:7000");
  for (const char* to : {"10.0.1.1:7000", "10.0.1.2:7000"}) {
    Dial("", to);
    const Handle k = w.Incoming(p, l);
    EXPECT_EQ(w.Call(p, GetLocalAddressOp{k}).reply.address, Ip(to));
  }
  EXPECT_EQ(w.Code(a, Dial("", "10.1.1.1:7000")), SC::kConnectionRefused);  // Another adapter.
}

TEST_F(Listen, ND_056_057_058_Close) {
  const Handle l = w.Listener(p, "10.0.1.1:7000");
  const OpId first = Dial(), second = Dial();
  const Handle k = w.Incoming(p, l);
  const OpId close = w.Submit(p, CloseOp{l, false});
  EXPECT_EQ(w.Code(p, close), SC::kPending);
  EXPECT_EQ(w.Code(a, second), SC::kConnectionRefused);
  EXPECT_EQ(Why(second), Detail::kListenerClosed);
  EXPECT_EQ(w.Try(p, AcceptOp{k, w.Qp(p), {1, 1}, {}, 0, false}), SC::kPending);
  EXPECT_EQ(w.Code(a, first), SC::kSuccess);
  EXPECT_EQ(w.broker(1).Listeners()[0].state, "closing");
  const OpId last = w.Submit(p, CloseOp{k, false});
  EXPECT_EQ(w.Code(p, close), SC::kSuccess);
  const std::vector<OpId> order = w.completion_order(p);
  EXPECT_EQ(order[order.size() - 1], close);  // ND_211: after its successor.
  EXPECT_EQ(order[order.size() - 2], last);
}

TEST_F(Listen, CloseRefusesEveryRequestThatWaits) {
  const Handle l = w.Listener(p, "10.0.1.1:7000");
  const OpId waiting[] = {Dial(), Dial(), Dial()};
  EXPECT_EQ(w.Close(p, l), SC::kSuccess);
  for (const OpId id : waiting) EXPECT_EQ(Why(id), Detail::kListenerClosed);
}

TEST_F(Listen, KillOfAnUnansweredRequestIsARejection) {
  const Handle l = w.Listener(p, "10.0.1.1:7000");
  const OpId id = Dial();
  const Handle k = w.Incoming(p, l);
  w.ClearLog();
  w.Step(1, KillConnection{k});
  EXPECT_EQ(w.Code(a, id), SC::kConnectionRefused);
  EXPECT_EQ(w.Seen<CmReject>(1).size(), 1u);
  EXPECT_TRUE(w.Seen<CmAbort>(1).empty());  // The answer of this host may still be on its way.
}

TEST_F(Listen, NdkListenerDeliversConnectors) {
  const Handle l = w.NdkListener(p, "10.0.1.1:7000");
  const OpId id = Dial("x");
  ASSERT_EQ(w.Seen<SendConnectEvent>(1).size(), 1u);
  const Handle k = w.Seen<SendConnectEvent>(1)[0].connector;
  EXPECT_EQ(w.Seen<SendConnectEvent>(1)[0].listener, l);
  EXPECT_EQ(w.State(p, k), ConnectorState::kIncoming);
  EXPECT_EQ(w.Close(p, k), SC::kSuccess);  // ND_150: closing is rejecting.
  EXPECT_EQ(w.Code(a, id), SC::kConnectionRefused);
  EXPECT_EQ(w.Try(p, GetConnectionRequestOp{l, w.Connector(p)}), SC::kInvalidDeviceState);
  w.Step(1, PauseListener{l, true});
  EXPECT_EQ(Why(Dial()), Detail::kPaused);
}

class Shared : public Listen {
 protected:
  OpId DialShared(Handle e, const std::string& to) {
    ConnectOp op;
    op.connector = w.Connector(a);
    op.queue_pair = w.Qp(a);
    op.remote = Ip(to);
    op.shared_endpoint = e;
    last = op.connector;
    return w.Submit(a, op);
  }
  Handle last;
};

TEST_F(Shared, ND_159_To_165) {
  const Handle e = w.Endpoint(a, "10.0.0.1:9999");
  EXPECT_EQ(w.Call(a, GetLocalAddressOp{e}).reply.address, Ip("10.0.0.1:9999"));
  EXPECT_GE(w.Call(a, GetLocalAddressOp{w.Endpoint(a, "10.0.0.1:0")}).reply.address.port(), 49152);
  w.Listener(p, "10.0.1.1:7000");
  w.Listener(p, "10.0.1.1:7001");
  const OpId one = DialShared(e, "10.0.1.1:7000");
  const Handle c1 = last;
  EXPECT_EQ(w.Code(a, one), SC::kPending);
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7001")), SC::kPending);
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7000")), SC::kAddressAlreadyExists);
  EXPECT_EQ(w.State(a, last), ConnectorState::kUnbound);
  EXPECT_EQ(w.Call(a, GetLocalAddressOp{c1}).reply.address, Ip("10.0.0.1:9999"));
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7999")), SC::kConnectionRefused);
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7999")), SC::kConnectionRefused);  // ND_163
  EXPECT_EQ(w.Try(a, CancelOp{c1}), SC::kSuccess);
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7000")), SC::kAddressAlreadyExists);
  EXPECT_EQ(w.Close(a, c1), SC::kSuccess);
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7000")), SC::kPending);
  EXPECT_EQ(w.broker(0).Endpoints()[0].connections, 2u);
}

TEST_F(Shared, ND_166_167_168_173_Close) {
  const Handle e = w.Endpoint(a, "10.0.0.1:9999");
  w.Listener(p, "10.0.1.1:7000");
  DialShared(e, "10.0.1.1:7000");
  const Handle c1 = last;
  EXPECT_EQ(w.Code(a, DialShared(e, "[fd00::1]:7000")), SC::kInvalidAddress);
  const OpId in = w.Connect(p, w.Bound(p, "10.0.1.1:0"), w.Qp(p), "10.0.0.1:9999");
  EXPECT_EQ(w.Code(p, in), SC::kConnectionRefused);
  const OpId close = w.Submit(a, CloseOp{e, true});
  EXPECT_EQ(w.Code(a, close), SC::kPending);
  EXPECT_EQ(w.Code(a, DialShared(e, "10.0.1.1:7001")), SC::kInvalidHandle);
  ASSERT_EQ(w.broker(0).Ports().size(), 1u);
  EXPECT_EQ(w.broker(0).Ports()[0].state, "lingering");
  EXPECT_EQ(w.Try(a, CreateSharedEndpointOp{a.adapter, Ip("10.0.0.1:9999")}), SC::kSharingViolation);
  EXPECT_EQ(w.Close(a, c1), SC::kSuccess);
  EXPECT_EQ(w.Code(a, close), SC::kSuccess);
  EXPECT_EQ(w.Try(a, CreateSharedEndpointOp{a.adapter, Ip("10.0.0.1:9999")}), SC::kSuccess);
}

}  // namespace
}  // namespace nd::core
