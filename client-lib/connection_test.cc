// SPDX-License-Identifier: Apache-2.0
// Connections with a fake broker and a fake provider: the calls and messages, and their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "client-lib/testing/fake_broker.h"

namespace nd::client {
namespace {

using Log = std::vector<std::string>;

class ConnectionTest : public ::testing::Test {
 protected:
  // A connector that went through Bind, Connect and CompleteConnect.
  void Establish() {
    ASSERT_TRUE(connector_.Bind(kHere).ok());
    ASSERT_TRUE(connector_.Connect(queue_pair_, kThere).ok());
    ASSERT_TRUE(connector_.CompleteConnect().ok());
    handle_ = broker_.Await<session::CompleteConnectOp>().connector;
  }

  QueuePair MakeQueuePair() {
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue_;
    return adapter_.CreateQueuePair(options).value();
  }

  static std::optional<Reply> Hold(const session::ClientMessage&) { return std::nullopt; }

  FakeBroker broker_;
  Adapter adapter_ = broker_.Open();
  CompletionQueue queue_ = adapter_.CreateCompletionQueue(16).value();
  QueuePair queue_pair_ = MakeQueuePair();
  std::shared_ptr<FakeQueuePair> fake_ = broker_.device().queue_pair;
  Connector connector_ = adapter_.CreateConnector().value();
  session::Handle handle_;
};

TEST_F(ConnectionTest, CostsOneMessagePerOperation) {
  Establish();
  EXPECT_EQ(broker_.Names(),
            (std::vector<std::string>{"Hello", "OpenAdapter", "CreateQueuePair", "CreateConnector", "Bind",
                                      "Connect", "CompleteConnect"}));
  EXPECT_EQ(broker_.Await<session::ConnectOp>().remote, kThere);
}

TEST_F(ConnectionTest, DataOfThePeerComesWithTheCompletionAndIsNotAskedForAgain) {
  const auto with_data = [](const session::ClientMessage&) {
    Reply reply;
    reply.private_data = {7, 8, 9};
    reply.limits = {3, 4};
    return reply;
  };
  const std::vector<std::byte> data = {std::byte{7}, std::byte{8}, std::byte{9}};
  broker_.On<session::ConnectOp>(with_data);
  broker_.On<session::GetConnectionRequestOp>(with_data);
  ASSERT_TRUE(connector_.Bind(kHere).ok());
  ASSERT_TRUE(connector_.Connect(queue_pair_, kThere).ok());
  Listener listener = adapter_.CreateListener().value();
  Connector passive = adapter_.CreateConnector().value();
  ASSERT_TRUE(listener.GetConnectionRequest(passive).ok());
  std::uint32_t inbound = 0, outbound = 0;
  for (const Connector* connector : {&connector_, &passive}) {
    EXPECT_EQ(connector->GetPrivateData().value(), data);
    EXPECT_TRUE(connector->GetReadLimits(&inbound, &outbound).ok());
    EXPECT_EQ(inbound, 3u);
    EXPECT_EQ(outbound, 4u);
  }
  EXPECT_EQ(broker_.Count<session::GetPrivateDataOp>(), 0u);
  EXPECT_EQ(broker_.Count<session::GetReadLimitsOp>(), 0u);
  // From the next operation on the state decides, which the broker knows.
  ASSERT_TRUE(connector_.CompleteConnect().ok());
  static_cast<void>(passive.Cancel());
  for (const Connector* connector : {&connector_, &passive}) {
    EXPECT_TRUE(connector->GetPrivateData().value().empty());
    EXPECT_TRUE(connector->GetReadLimits(&inbound, &outbound).ok());
  }
  EXPECT_EQ(broker_.Count<session::GetPrivateDataOp>(), 2u);
  EXPECT_EQ(broker_.Count<session::GetReadLimitsOp>(), 2u);
}

// The broker ends the connector with its queue pair.
TEST_F(ConnectionTest, DataOfThePeerIsAskedForWhenTheQueuePairIsClosed) {
  broker_.On<session::ConnectOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.private_data = {7};
    return reply;
  });
  ASSERT_TRUE(connector_.Bind(kHere).ok());
  ASSERT_TRUE(connector_.Connect(queue_pair_, kThere).ok());
  ASSERT_TRUE(queue_pair_.Close().ok());
  EXPECT_TRUE(connector_.GetPrivateData().value().empty());
  EXPECT_EQ(broker_.Count<session::GetPrivateDataOp>(), 1u);
}

TEST_F(ConnectionTest, IsAttachedBeforeTheCompletionIsSeen) {
  std::promise<Log> seen;
  Request request([&](const Status&) { seen.set_value(fake_->log()); });
  ASSERT_TRUE(connector_.Bind(kHere).ok());
  ASSERT_TRUE(connector_.Connect(queue_pair_, kThere).ok());
  ASSERT_TRUE(connector_.CompleteConnect(&request).pending());
  EXPECT_EQ(seen.get_future().get(), Log{"attach"});
  EXPECT_TRUE(broker_.Acknowledged(fake_->record.id));
}

TEST_F(ConnectionTest, RefusesErrorsThatTheBrokerCannotSee) {
  ConnectOptions options;
  options.private_data = PrivateData(static_cast<const std::byte*>(nullptr), 4);
  EXPECT_EQ(connector_.Connect(queue_pair_, kThere, options), StatusCode::kAccessViolation);
  EXPECT_EQ(connector_.Reject(options.private_data), StatusCode::kAccessViolation);
  FakeBroker other;
  Adapter stranger = other.Open();
  CompletionQueue queue = stranger.CreateCompletionQueue(4).value();
  QueuePairOptions foreign;
  foreign.receive_cq = foreign.initiator_cq = &queue;
  QueuePair queue_pair = stranger.CreateQueuePair(foreign).value();
  EXPECT_EQ(connector_.Connect(queue_pair, kThere), StatusCode::kInvalidParameter1);
  EXPECT_EQ(connector_.Accept(queue_pair), StatusCode::kInvalidParameter1);
  EXPECT_EQ(adapter_.CreateQueuePair(foreign).code(), StatusCode::kInvalidParameter1);
  Connector none;
  EXPECT_EQ(none.Connect(queue_pair_, kThere), StatusCode::kInvalidHandle);
  EXPECT_EQ(broker_.Count<session::ConnectOp>(), 0u);
}

// An order of the broker, which brokers of every version send, must not end the transport a second time.
TEST_F(ConnectionTest, DisconnectEndsTheTransportThenReportsThenCompletes) {
  Establish();
  broker_.On<session::DisconnectOp>(Hold);
  Request request;
  ASSERT_TRUE(connector_.Disconnect(&request).pending());
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect"}));  // The broker has said nothing yet.
  const auto asked = broker_.Await<session::DisconnectOp>();
  EXPECT_TRUE(asked.begun) << "so that a broker of this version gives no order";
  const auto report = broker_.Await<session::TransportReportOp>();
  EXPECT_EQ(report.what, session::TransportReportOp::What::kDisconnectDone);
  EXPECT_EQ(report.connector, handle_);
  broker_.Send(session::TransportCommand{handle_, session::TransportCommand::What::kDisconnect, {}, 5000});
  ASSERT_TRUE(connector_.Cancel().ok());  // A round trip: the order has been handled.
  EXPECT_TRUE(request.GetResult(false).pending());
  broker_.Complete(asked.id);
  EXPECT_TRUE(request.GetResult().ok());
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect"}));
  EXPECT_EQ(broker_.Count<session::TransportReportOp>(), 1u);
}

// The broker orders a disconnect when the queue pair is closed under a connection.
TEST_F(ConnectionTest, OrderOfTheBrokerEndsTheTransport) {
  Establish();
  broker_.Send(session::TransportCommand{handle_, session::TransportCommand::What::kDisconnect, {}, 5000});
  EXPECT_EQ(broker_.Await<session::TransportReportOp>().what,
            session::TransportReportOp::What::kDisconnectDone);
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect"}));
}

TEST_F(ConnectionTest, DisconnectWaitsForThePeerWhateverTheBrokerAnswersFirst) {
  for (const StatusCode answer : {StatusCode::kSuccess, StatusCode::kInsufficientResources}) {
    SCOPED_TRACE(Name(answer));
    FakeBroker broker;
    Adapter adapter = broker.Open();
    CompletionQueue queue = adapter.CreateCompletionQueue(16).value();
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue;
    QueuePair queue_pair = adapter.CreateQueuePair(options).value();
    Connector connector = adapter.CreateConnector().value();
    ASSERT_TRUE(connector.Bind(kHere).ok());
    ASSERT_TRUE(connector.Connect(queue_pair, kThere).ok());
    ASSERT_TRUE(connector.CompleteConnect().ok());
    const std::shared_ptr<FakeQueuePair> fake = broker.device().queue_pair;
    fake->hold_disconnect = true;
    broker.On<session::DisconnectOp>(Hold);
    Request request;
    ASSERT_TRUE(connector.Disconnect(&request).pending());
    broker.Complete(broker.Await<session::DisconnectOp>().id, answer);
    ASSERT_TRUE(connector.Cancel().ok());  // A round trip: the answer has been handled.
    EXPECT_TRUE(request.GetResult(false).pending());
    fake->FinishDisconnects();
    EXPECT_TRUE(request.GetResult().ok());
  }
}

TEST_F(ConnectionTest, AfterThePeersDisconnectBothAnswersAreInline) {
  Establish();
  broker_.On<session::DisconnectOp>(Hold);
  broker_.On<session::TransportReportOp>(Hold);
  broker_.On<session::NotifyDisconnectOp>(Hold);
  const Status cause(StatusCode::kConnectionAborted, "what the transport saw", Detail::kTransport, 7);
  fake_->options.on_peer_closed(DisconnectReason::kPeerProcessDied, cause);
  Request request;
  EXPECT_EQ(connector_.NotifyDisconnect(&request), StatusCode::kSuccess);
  EXPECT_EQ(request.GetResult(false), StatusCode::kConnectionInvalid);  // It carried no operation.
  EXPECT_EQ(fake_->log(), Log{"attach"});
  EXPECT_EQ(connector_.Disconnect(&request), StatusCode::kSuccess);
  // Not dropped, because the provider still has to answer the peer. The flush is done.
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect", "flush"}));
  EXPECT_EQ(request.GetResult(false), StatusCode::kConnectionInvalid);
  EXPECT_EQ(adapter_.PollRequest(), nullptr);
  EXPECT_EQ(connector_.disconnect_reason(), DisconnectReason::kPeerProcessDied);
  // The broker receives both, in order and before later messages.
  EXPECT_EQ(broker_.Await<session::DisconnectOp>().connector, handle_);
  const auto report = broker_.Await<session::TransportReportOp>();
  EXPECT_EQ(report.reason, DisconnectReason::kPeerProcessDied);
  EXPECT_EQ(report.status.ToString(), cause.ToString());
  EXPECT_TRUE(connector_.Close().ok());
  const std::vector<std::string> names = broker_.Names();
  EXPECT_EQ(std::vector(names.end() - 3, names.end()),
            (std::vector<std::string>{"TransportReport", "Disconnect", "Close"}));
  EXPECT_EQ(broker_.Count<session::NotifyDisconnectOp>(), 0u);
}

// The thread that notices it may move the data of other connections.
TEST_F(ConnectionTest, EndIsReportedByTheKeeperWhileTheLaneIsFull) {
  Establish();
  broker_.SetFull(true);
  fake_->options.on_peer_closed(DisconnectReason::kPeerProcessDied, {});
  EXPECT_EQ(broker_.Await<session::TransportReportOp>().reason, DisconnectReason::kPeerProcessDied);
  EXPECT_EQ(broker_.last_at_once(), std::thread::id());
  EXPECT_TRUE(connector_.Close().ok());
  EXPECT_EQ(broker_.Count<session::TransportReportOp>(), 1u);
}

TEST_F(ConnectionTest, ThreadThatNoticesAnEndReportsItItself) {
  Establish();
  fake_->options.on_peer_closed(DisconnectReason::kPeerProcessDied, {});
  EXPECT_EQ(broker_.last_at_once(), std::this_thread::get_id());
  EXPECT_EQ(broker_.Await<session::TransportReportOp>().reason, DisconnectReason::kPeerProcessDied);
  EXPECT_TRUE(connector_.Close().ok());
  EXPECT_EQ(broker_.Count<session::TransportReportOp>(), 1u);
}

TEST_F(ConnectionTest, EventOfTheBrokerEndsTheConnection) {
  Establish();
  EXPECT_TRUE(connector_.NotifyDisconnect().ok());  // Providers whose goodbyes travel through the broker.
  broker_.On<session::DisconnectOp>(Hold);
  broker_.On<session::NotifyDisconnectOp>(Hold);
  EXPECT_EQ(connector_.NotifyDisconnect(), StatusCode::kSuccess);
  EXPECT_EQ(connector_.Disconnect(), StatusCode::kSuccess);
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect", "flush"}));
}

TEST_F(ConnectionTest, DisconnectOfADeviceBeforeThatOfThePeerIsNotOvertaken) {
  fake_->number = 7;
  Establish();
  broker_.On<session::DisconnectOp>(Hold);
  Request first, second;
  ASSERT_TRUE(connector_.Disconnect(&first).pending());
  fake_->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  const auto op = broker_.Await<session::DisconnectOp>();
  EXPECT_TRUE(connector_.Disconnect(&second).pending());  // The broker decides.
  broker_.Complete(op.id);
  EXPECT_TRUE(first.GetResult().ok());
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect", "flush"}));
  broker_.Complete(broker_.Await<session::DisconnectOp>(2).id, StatusCode::kConnectionInvalid);
  EXPECT_EQ(second.GetResult(), StatusCode::kConnectionInvalid);
}

TEST_F(ConnectionTest, DisconnectOfADeviceIsPossibleAfterARefusedOne) {
  fake_->number = 7;
  Establish();
  broker_.On<session::DisconnectOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = StatusCode::kInvalidParameter;
    return reply;
  });
  EXPECT_EQ(connector_.Disconnect(), StatusCode::kInvalidParameter);
  fake_->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  broker_.On<session::DisconnectOp>(Hold);
  EXPECT_EQ(connector_.Disconnect(), StatusCode::kSuccess);
}

TEST_F(ConnectionTest, BrokerAnswersAfterTheAdapterIsGone) {
  Establish();
  fake_->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  broker_.Send(session::AdapterEvent{{}, session::AdapterEvent::What::kRemoved});
  ASSERT_TRUE(connector_.Cancel().ok());  // A round trip: the event has been handled.
  broker_.On<session::NotifyDisconnectOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = StatusCode::kDeviceRemoved;
    return reply;
  });
  EXPECT_EQ(connector_.NotifyDisconnect(), StatusCode::kDeviceRemoved);
}

TEST_F(ConnectionTest, KillByTheAdministratorIsAnsweredInline) {
  Establish();
  broker_.Send(session::TransportCommand{handle_, session::TransportCommand::What::kDrop,
                                         DisconnectReason::kLocalAdministrator, 0});
  ASSERT_TRUE(connector_.Cancel().ok());
  broker_.On<session::NotifyDisconnectOp>(Hold);
  EXPECT_EQ(connector_.NotifyDisconnect(), StatusCode::kSuccess);
}

TEST_F(ConnectionTest, CloseAfterThePeersDisconnectLetsTheAnswerLeave) {
  Establish();
  fake_->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  EXPECT_TRUE(queue_pair_.Close().ok());
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect", "flush"}));
  EXPECT_TRUE(connector_.Close().ok());
  EXPECT_EQ(fake_->log(), (Log{"attach", "disconnect", "flush"}));
  const std::vector<std::string> names = broker_.Names();
  EXPECT_EQ(std::vector(names.end() - 3, names.end()),
            (std::vector<std::string>{"TransportReport", "Close", "Close"}));
}

TEST_F(ConnectionTest, AnswerToTheDisconnectKeepsTheQueuePairAlive) {
  Establish();
  fake_->hold_disconnect = true;
  fake_->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  EXPECT_TRUE(connector_.Disconnect().ok());
  EXPECT_TRUE(connector_.Close().ok());
  EXPECT_TRUE(queue_pair_.Close().ok());
  queue_pair_ = QueuePair();
  broker_.device().queue_pair.reset();
  EXPECT_EQ(std::ranges::count(fake_->log(), "drop"), 0);
  fake_->FinishDisconnects();
  while (std::ranges::count(fake_->log(), "drop") == 0) std::this_thread::yield();
}

TEST_F(ConnectionTest, DisconnectCallbackRunsOnceAndOnlyWhenAsked) {
  std::promise<DisconnectReason> called;
  connector_.SetDisconnectCallback([&](DisconnectReason reason) { called.set_value(reason); });
  Establish();
  EXPECT_TRUE(broker_.Await<session::CompleteConnectOp>().disconnect_event);
  broker_.Send(session::DisconnectEvent{handle_, DisconnectReason::kPeerDisconnected});
  broker_.Send(session::DisconnectEvent{handle_, DisconnectReason::kPeerDisconnected});
  EXPECT_EQ(called.get_future().get(), DisconnectReason::kPeerDisconnected);
  EXPECT_TRUE(connector_.Close().ok());
}

TEST_F(ConnectionTest, DropEndsTheTransport) {
  Establish();
  broker_.Send(session::TransportCommand{handle_, session::TransportCommand::What::kDrop,
                                         DisconnectReason::kAdapterDisabled, 0});
  ASSERT_TRUE(connector_.Cancel().ok());  // A round trip: the command has been handled.
  EXPECT_EQ(fake_->log(), (Log{"attach", "drop"}));
  EXPECT_EQ(connector_.disconnect_reason(), DisconnectReason::kAdapterDisabled);
}

TEST_F(ConnectionTest, ReasonOfTheBrokerIsReported) {
  Establish();
  fake_->options.on_peer_closed(DisconnectReason::kPeerDisconnected,
                                {});  // The transport was dropped a moment earlier.
  broker_.Send(session::TransportCommand{handle_, session::TransportCommand::What::kDrop,
                                         DisconnectReason::kAdapterDisabled, 0});
  ASSERT_TRUE(connector_.Cancel().ok());
  EXPECT_EQ(connector_.disconnect_reason(), DisconnectReason::kAdapterDisabled);
}

TEST_F(ConnectionTest, FailedAttachIsReportedAndFailsTheCall) {
  fake_->attach_result = StatusCode::kAccessViolation;
  ASSERT_TRUE(connector_.Bind(kHere).ok());
  ASSERT_TRUE(connector_.Connect(queue_pair_, kThere).ok());
  EXPECT_EQ(connector_.CompleteConnect(), StatusCode::kAccessViolation);
  EXPECT_EQ(broker_.Await<session::TransportReportOp>().reason, DisconnectReason::kEstablishmentFailed);
}

TEST_F(ConnectionTest, DamagedHandOverEndsTheSession) {
  const std::function<void(provider::HandOffRecord&)> damages[] = {
      [](provider::HandOffRecord& r) { r.magic = 1; },    [](provider::HandOffRecord& r) { r.version = 9; },
      [](provider::HandOffRecord& r) { r.size = 8; },     [](provider::HandOffRecord& r) { r.fd_count = 2; },
      [](provider::HandOffRecord& r) { r.fd_count = 0; }, [](provider::HandOffRecord& r) { r.id = 0; },
  };
  for (const auto& damage : damages) {
    FakeBroker broker;
    std::promise<void> lost;
    std::atomic<bool> told = false;
    Adapter adapter = broker.Open({.reconnect = false});
    adapter.SetSessionCallback([&](bool connected) {
      if (!connected && !told.exchange(true)) lost.set_value();
    });
    broker.SendHandOff({1}, damage);
    lost.get_future().wait();
    EXPECT_FALSE(adapter.connected());
  }
}

TEST_F(ConnectionTest, MayBeClosedInsideItsOwnCallback) {
  std::promise<Status> closed;
  Request request([&](const Status&) { closed.set_value(connector_.Close()); });
  ASSERT_TRUE(connector_.Connect(queue_pair_, kThere, {}, &request).pending());
  EXPECT_TRUE(closed.get_future().get().ok());
  EXPECT_EQ(connector_.Close(), StatusCode::kInvalidHandle);
  EXPECT_EQ(connector_.Bind(kHere), StatusCode::kInvalidHandle);
}

TEST_F(ConnectionTest, CloseIsDeliveredAfterEverythingElse) {
  broker_.On<session::ConnectOp>(Hold);
  std::vector<std::string> order;
  std::promise<void> done;
  Request connect([&](const Status& status) { order.push_back(std::string(Name(status.code()))); });
  Request close([&](const Status&) {
    order.push_back("closed");
    done.set_value();
  });
  ASSERT_TRUE(connector_.Connect(queue_pair_, kThere, {}, &connect).pending());
  const auto op = broker_.Await<session::ConnectOp>();
  // Both from the handler: Await() returns before the handler has run.
  broker_.On<session::CloseOp>([&](const session::ClientMessage& message) {
    broker_.Complete(op.id, StatusCode::kCanceled);
    broker_.Complete(message.op_id);
    return std::nullopt;
  });
  ASSERT_TRUE(connector_.Close(&close).pending());
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<std::string>{"CANCELED", "closed"}));
  broker_.On<session::CloseOp>({});
}

TEST_F(ConnectionTest, CompletionQueueClosesAfterItsQueuePair) {
  std::vector<std::string> order;
  std::promise<void> done;
  Request queue_closed([&](const Status&) {
    order.push_back("queue");
    done.set_value();
  });
  Request pair_closed([&](const Status&) { order.push_back("pair"); });
  ASSERT_TRUE(queue_.Close(&queue_closed).pending());
  EXPECT_TRUE(queue_closed.GetResult(false).pending());
  EXPECT_EQ(queue_.state(), StatusCode::kInvalidHandle);
  ASSERT_TRUE(queue_pair_.Close(&pair_closed).pending());
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<std::string>{"pair", "queue"}));
  EXPECT_EQ(fake_->log(), (Log{"drop", "flush"}));
}

TEST_F(ConnectionTest, LastHandleClosesInTheBackground) {
  Establish();
  connector_ = Connector();
  EXPECT_EQ(broker_.Await<session::CloseOp>().handle, handle_);
}

TEST_F(ConnectionTest, ListenerDeliversConnectorsAndRejectsDroppedOnes) {
  std::promise<Connector> kept;
  Listener listener =
      adapter_.NdkListen(kThere, [&](Connector connector) { kept.set_value(std::move(connector)); }).value();
  const session::Handle handle = broker_.Await<session::ListenOp>().listener;
  broker_.Send(session::ConnectEvent{handle, {4711}});
  Connector connector = kept.get_future().get();
  EXPECT_TRUE(connector.Accept(queue_pair_).ok());
  EXPECT_EQ(broker_.Await<session::AcceptOp>().connector.value, 4711u);
  broker_.Send(session::ConnectEvent{{handle.value + 999}, {4712}});  // An unknown listener.
  EXPECT_EQ(broker_.Await<session::CloseOp>().handle.value, 4712u);
}

TEST_F(ConnectionTest, QueuePairOptionsAreNumbered) {
  const auto code = [this](auto change) {
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue_;
    change(options);
    return adapter_.CreateQueuePair(options).code();
  };
  using O = QueuePairOptions;
  using enum StatusCode;
  CompletionQueue none;
  SharedReceiveQueue no_srq;
  EXPECT_EQ(code([](O& o) { o.receive_cq = nullptr; }), kInvalidParameter1);
  EXPECT_EQ(code([&](O& o) { o.initiator_cq = &none; }), kInvalidParameter2);
  EXPECT_EQ(code([&](O& o) { o.shared_receive_queue = &no_srq; }), kInvalidParameter3);
  EXPECT_EQ(code([](O& o) { o.receive_depth = 65; }), kInvalidParameter5);
  EXPECT_EQ(code([](O& o) { o.initiator_depth = 65; }), kInvalidParameter6);
  EXPECT_EQ(code([](O& o) { o.max_receive_sge = 9; }), kInvalidParameter7);
  EXPECT_EQ(code([](O& o) { o.max_initiator_sge = 9; }), kInvalidParameter8);
  EXPECT_EQ(code([](O& o) { o.inline_data_size = 129; }), kInvalidParameter9);
  EXPECT_EQ(code([](O& o) {
              o.receive_depth = o.initiator_depth = 64;
              o.max_receive_sge = o.max_initiator_sge = 8;
              o.inline_data_size = 128;
            }),
            kSuccess);
}

}  // namespace
}  // namespace nd::client
