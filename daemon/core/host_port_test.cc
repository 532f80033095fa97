// SPDX-License-Identifier: Apache-2.0
// Where ND ports are ports of the host an operation waits until the provider has answered for its port. What
// the object may do in the meantime, and how the wait ends.
#include <string>

#include "daemon/core/core_harness.h"

namespace nd::core {
namespace {

using SC = StatusCode;

class HostPort : public ::testing::Test {
 protected:
  HostPort() {
    auto adapters = w_.broker().Adapters();
    adapters[0].description.reserve_ports = true;
    w_.Step(0, AdaptersChanged{{adapters[0].description, adapters[1].description}});
    c_ = w_.Open();
    w_.Listener(c_, "10.0.0.1:7000");
    w_.answer_reserves = false;
  }
  // Answers the last question for a port.
  void Answer(SC code) { w_.Step(0, CmReserved{w_.Seen<CmReserve>().back().endpoint, {code, "host"}}); }
  OpId NdkConnect(Handle connector, const std::string& source) {
    return w_.Submit(c_, ConnectOp{connector, w_.Qp(c_), Ip("10.0.0.1:7000"), {1, 1}, {}, 0, Ip(source), {}});
  }
  Handle NewListener() { return w_.Call(c_, CreateListenerOp{c_.adapter}).reply.handle; }
  ConnectionRow RowOf(Handle connector) {
    for (const ConnectionRow& row : w_.broker().Connections()) {
      if (row.id == connector) return row;
    }
    ADD_FAILURE() << "no such connector";
    return {};
  }

  World w_;
  World::Client c_;
};

TEST_F(HostPort, ConnectWithASourceGoesOutWhenThePortIsGranted) {
  const Handle k = w_.Connector(c_);
  const OpId connect = NdkConnect(k, "10.0.0.1:6000");
  EXPECT_EQ(w_.Code(c_, connect), SC::kPending);
  EXPECT_TRUE(w_.Seen<CmConnect>().empty());
  Answer(SC::kSuccess);
  ASSERT_EQ(w_.Seen<CmConnect>().size(), 1u);
  EXPECT_EQ(w_.Seen<CmConnect>()[0].params.endpoint, w_.Seen<CmReserve>().back().endpoint);
  EXPECT_EQ(w_.Seen<CmConnect>()[0].params.local, Ip("10.0.0.1:6000"));
}

TEST_F(HostPort, ConnectFromAnyPortTriesTheNextOne) {
  const Handle k = w_.Connector(c_);
  const OpId connect = NdkConnect(k, "10.0.0.1:0");
  const Address first = w_.Seen<CmReserve>().back().local;
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, connect), SC::kPending);
  const Address second = w_.Seen<CmReserve>().back().local;
  EXPECT_NE(first, second);
  Answer(SC::kSuccess);
  ASSERT_EQ(w_.Seen<CmConnect>().size(), 1u);
  EXPECT_EQ(w_.Seen<CmConnect>()[0].params.local, second);
}

TEST_F(HostPort, OnlyAPortThatIsInUseIsReplacedByAnother) {
  const Handle k = w_.Connector(c_);
  const OpId bind = w_.Submit(c_, BindOp{k, Ip("10.0.0.1:0")});
  Answer(SC::kAccessDenied);
  EXPECT_EQ(w_.Code(c_, bind), SC::kAccessDenied);
  EXPECT_EQ(w_.Result(c_, bind).status.message(), "host");
}

// A refused host port leaves the object without a port and without an address.
TEST_F(HostPort, RefusedObjectIsAsBefore) {
  const Handle k = w_.Connector(c_), l = NewListener();
  const OpId connect = NdkConnect(k, "10.0.0.1:6000");
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, connect), SC::kSharingViolation);
  EXPECT_EQ(w_.State(c_, k), ConnectorState::kDead) << "it cannot be repeated";
  const Handle b = w_.Connector(c_);
  const OpId bind = w_.Submit(c_, BindOp{b, Ip("10.0.0.1:6000")});
  EXPECT_EQ(RowOf(b).local, Ip("10.0.0.1:6000"));
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, bind), SC::kSharingViolation);
  EXPECT_EQ(RowOf(b).local, Address());
  EXPECT_EQ(w_.Try(c_, GetLocalAddressOp{b}), SC::kConnectionInvalid);
  const OpId listen = w_.Submit(c_, ListenOp{l, 0, Ip("10.0.0.1:7001"), false});
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, listen), SC::kSharingViolation);
  EXPECT_EQ(w_.broker().Listeners()[1].local, Address());
  const OpId endpoint = w_.Submit(c_, CreateSharedEndpointOp{c_.adapter, Ip("10.0.0.1:7002")});
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, endpoint), SC::kSharingViolation);
  EXPECT_TRUE(w_.broker().Endpoints().empty());
  EXPECT_EQ(w_.broker().Ports().size(), 1u) << "the first listener's";
  EXPECT_TRUE(w_.Seen<CmRelease>().empty()) << "there was nothing to release";
}

TEST_F(HostPort, ListenerAndEndpointWithAnyPortTryTheNextOne) {
  const OpId listen = w_.Submit(c_, ListenOp{NewListener(), 0, Ip("10.0.0.1:0"), false});
  Answer(SC::kSharingViolation);
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Result(c_, listen).reply.address, w_.Seen<CmReserve>().back().local);
  const OpId endpoint = w_.Submit(c_, CreateSharedEndpointOp{c_.adapter, Ip("10.0.0.1:0")});
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, endpoint), SC::kPending);
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Result(c_, endpoint).reply.address, w_.Seen<CmReserve>().back().local);
}

TEST_F(HostPort, ConnectorThatWaitsIsBusy) {
  const Handle k = w_.Connector(c_), listener = w_.broker().Listeners()[0].id;
  const OpId bind = w_.Submit(c_, BindOp{k, Ip("10.0.0.1:6000")});
  EXPECT_EQ(w_.Try(c_, BindOp{k, Ip("10.0.0.1:6001")}), SC::kAddressAlreadyAssociated);
  ConnectOp nd2{k, w_.Qp(c_), Ip("10.0.0.1:7000"), {1, 1}, {}, 0, {}, {}};
  EXPECT_EQ(w_.Try(c_, nd2), SC::kConnectionActive);
  EXPECT_EQ(w_.Code(c_, NdkConnect(k, "10.0.0.1:6002")), SC::kConnectionActive);
  EXPECT_EQ(w_.Try(c_, GetConnectionRequestOp{listener, k}), SC::kConnectionActive);
  EXPECT_EQ(w_.Try(c_, CompleteConnectOp{k, false}), SC::kConnectionInvalid);
  EXPECT_EQ(w_.Code(c_, bind), SC::kPending) << "undisturbed";
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Result(c_, bind).reply.address, Ip("10.0.0.1:6000"));
}

TEST_F(HostPort, ListenerThatWaitsIsBusy) {
  const Handle l = NewListener();
  const OpId bind = w_.Submit(c_, BindOp{l, Ip("10.0.0.1:7001")});
  EXPECT_EQ(w_.Try(c_, BindOp{l, Ip("10.0.0.1:7002")}), SC::kAddressAlreadyAssociated);
  const Complete listen = w_.Call(c_, ListenOp{l, 0, Ip("10.0.0.1:7002"), false});
  EXPECT_EQ(listen.status.code(), SC::kInvalidDeviceState);
  EXPECT_EQ(listen.status.message(), "The listener waits for its port.");
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Code(c_, bind), SC::kSuccess);
  EXPECT_EQ(w_.Call(c_, ListenOp{l, 0, Ip("10.0.0.1:7002"), false}).status.message(),
            "The listener is bound already.");
  EXPECT_EQ(w_.Try(c_, ListenOp{l}), SC::kSuccess);
}

TEST_F(HostPort, EndpointThatWaitsHasNoHandleYet) {
  const OpId create = w_.Submit(c_, CreateSharedEndpointOp{c_.adapter, Ip("10.0.0.1:6000")});
  const Handle endpoint = w_.broker().Endpoints()[0].id;
  EXPECT_EQ(w_.Try(c_, GetLocalAddressOp{endpoint}), SC::kInvalidHandle);
  ConnectOp shared{w_.Connector(c_), w_.Qp(c_), Ip("10.0.0.1:7000"), {1, 1}, {}, 0, {}, {}};
  shared.shared_endpoint = endpoint;
  EXPECT_EQ(w_.Try(c_, shared), SC::kInvalidHandle);
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Result(c_, create).reply.handle, endpoint);
  EXPECT_EQ(w_.Call(c_, GetLocalAddressOp{endpoint}).reply.address, Ip("10.0.0.1:6000"));
}

TEST_F(HostPort, CancelGivesThePortUp) {
  const Handle k = w_.Connector(c_), l = NewListener();
  const OpId connect = NdkConnect(k, "10.0.0.1:6000");
  const OpId bind = w_.Submit(c_, BindOp{l, Ip("10.0.0.1:7001")});
  EXPECT_EQ(w_.Try(c_, CancelOp{k}), SC::kSuccess);
  EXPECT_EQ(w_.Try(c_, CancelOp{l}), SC::kSuccess);
  EXPECT_EQ(w_.Code(c_, connect), SC::kCanceled);
  EXPECT_EQ(w_.Code(c_, bind), SC::kCanceled);
  EXPECT_EQ(w_.State(c_, k), ConnectorState::kDead);
  EXPECT_EQ(RowOf(k).local, Address());
  EXPECT_EQ(w_.broker().Listeners()[1].local, Address());
  EXPECT_EQ(w_.Seen<CmRelease>().size(), 2u);
  EXPECT_EQ(w_.broker().Ports().size(), 1u);
  Answer(SC::kSuccess);  // Too late.
  EXPECT_TRUE(w_.Seen<CmConnect>().empty());
  const OpId again = w_.Submit(c_, BindOp{l, Ip("10.0.0.1:7001")});
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Code(c_, again), SC::kSuccess) << "the listener is as new";
}

TEST_F(HostPort, AdapterThatIsDisabledEndsTheWait) {
  const Handle k = w_.Connector(c_), l = NewListener();
  const OpId bind = w_.Submit(c_, BindOp{k, Ip("10.0.0.1:6000")});
  const OpId listen = w_.Submit(c_, BindOp{l, Ip("10.0.0.1:7001")});
  const OpId endpoint = w_.Submit(c_, CreateSharedEndpointOp{c_.adapter, Ip("10.0.0.1:6001")});
  const OpId back = w_.Submit(c_, w_.Returning(c_, "10.0.0.1:6002", "10.0.5.1:7000", false));
  ASSERT_EQ(w_.Code(c_, back), SC::kPending);
  w_.Step(0, SetAdapter{"a0", false});
  for (const OpId op : {bind, listen, endpoint, back}) {
    EXPECT_EQ(w_.Code(c_, op), SC::kDeviceRemoved);
    EXPECT_EQ(w_.Result(c_, op).status.detail(), Detail::kAdapterDisabled);
  }
  EXPECT_TRUE(w_.broker().Endpoints().empty()) << "its client never got the handle";
  ASSERT_EQ(w_.broker().Connections().size(), 1u) << "nor that of the one that was to come back";
  EXPECT_EQ(w_.broker().Connections()[0].id, k);
  EXPECT_EQ(w_.Seen<CmRelease>().size(), 4u);
}

// An end of the session finds the object in the queue of the provider.
TEST_F(HostPort, AnswerForAnEndedSessionReleasesThePort) {
  w_.reclaim_at_once = false;
  w_.Submit(c_, BindOp{w_.Connector(c_), Ip("10.0.0.1:6000")});
  const OpId back = w_.Submit(c_, w_.Returning(c_, "10.0.0.1:6002", "10.0.5.1:7000", false));
  w_.Step(0, ReclaimSome{1});
  w_.Step(0, SessionClosed{c_.session});
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Code(c_, back), SC::kPending) << "nobody is told";
  while (w_.broker().reclaiming()) w_.Step(0, ReclaimSome{});
  EXPECT_EQ(w_.Seen<CmRelease>().size(), w_.Seen<CmReserve>().size());
  EXPECT_TRUE(w_.broker().Ports().empty());
}

// When another user has the port now, the connection continues without the broker.
TEST_F(HostPort, RefusedReattachLeavesNothing) {
  const ReattachOp op = w_.Returning(c_, "10.0.0.1:6002", "10.0.5.1:7000", false);
  const OpId back = w_.Submit(c_, op);
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, back), SC::kSharingViolation);
  EXPECT_TRUE(w_.broker().Connections().empty());
  EXPECT_EQ(w_.broker().Ports().size(), 1u);
  EXPECT_EQ(w_.Close(c_, op.queue_pair), SC::kSuccess) << "its queue pair is free";
}

TEST_F(HostPort, QueuePairThatReattachMadeEndsWithoutItsConnection) {
  ReattachOp op = w_.Returning(c_, "10.0.0.1:6002", "10.0.5.1:7000", false);
  ASSERT_EQ(w_.Close(c_, std::exchange(op.queue_pair, {})), SC::kSuccess);
  const OpId refused = w_.Submit(c_, op);
  EXPECT_EQ(w_.broker().QueuePairs().size(), 1u);
  Answer(SC::kSharingViolation);
  EXPECT_EQ(w_.Code(c_, refused), SC::kSharingViolation);
  EXPECT_TRUE(w_.broker().QueuePairs().empty());
  const OpId granted = w_.Submit(c_, op);
  Answer(SC::kSuccess);
  EXPECT_EQ(w_.Code(c_, granted), SC::kSuccess);
  EXPECT_EQ(w_.broker().QueuePairs().size(), 1u);
  // The adapter goes while another one waits.
  ReattachOp later = w_.Returning(c_, "10.0.0.1:6003", "10.0.5.1:7000", false);
  ASSERT_EQ(w_.Close(c_, std::exchange(later.queue_pair, {})), SC::kSuccess);
  const OpId removed = w_.Submit(c_, later);
  w_.Step(0, SetAdapter{"a0", false});
  EXPECT_EQ(w_.Code(c_, removed), SC::kDeviceRemoved);
  EXPECT_EQ(w_.broker().QueuePairs().size(), 1u) << "that of the connection that was back";
}

}  // namespace
}  // namespace nd::core
