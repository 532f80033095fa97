// SPDX-License-Identifier: Apache-2.0
// Queue pairs and connectors that are made ahead, with a fake broker that offers spares.
#include <gtest/gtest.h>

#include <thread>

#include "client-lib/core/testing/fake_device.h"
#include "client-lib/testing/fake_broker.h"

namespace nd::client {
namespace {

class AheadTest : public ::testing::Test {
 protected:
  AheadTest() {
    broker_.GiveCounters(0);
    first_ = MakeQueuePair();  // The page with the spares comes with it.
    broker_.On<session::CreateQueuePairOp>(Hold);
    broker_.On<session::CreateConnectorOp>(Hold);
  }
  Result<QueuePair> MakeQueuePair() {
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue_;
    return adapter_.CreateQueuePair(options);
  }
  static std::optional<Reply> Hold(const session::ClientMessage&) { return std::nullopt; }
  // Answers the operation that made an object.
  void Made(session::OpId id, session::Handle handle) {
    Reply reply;
    reply.handle = handle;
    broker_.Send(session::Completion{id, {}, std::move(reply)});
  }

  FakeBroker broker_;
  Adapter adapter_ = broker_.Open();
  CompletionQueue queue_ = adapter_.CreateCompletionQueue(16).value();
  Result<QueuePair> first_ = Status(StatusCode::kUnsuccessful);
};

TEST_F(AheadTest, AConnectorHasANameUntilItsHandleArrives) {
  broker_.spares().connectors[1] = 1;
  Result<Connector> connector = adapter_.CreateConnector();
  ASSERT_TRUE(connector.ok());
  EXPECT_EQ(broker_.put_off(), 1);
  const auto made = broker_.Await<session::CreateConnectorOp>();
  EXPECT_EQ(made.spare, 2u);
  EXPECT_EQ(broker_.spares().connectors[1], 0u) << "taken";
  ASSERT_TRUE(connector->Bind(kHere).ok());
  EXPECT_EQ(broker_.Await<session::BindOp>().handle, session::Handle::NameOf(made.id));
  Made(made.id, {4711});
  ASSERT_TRUE(connector->GetLocalAddress().ok()) << "its answer follows the other";
  ASSERT_TRUE(connector->GetLocalAddress().ok());
  EXPECT_EQ(broker_.Await<session::GetLocalAddressOp>(2).handle, session::Handle{4711});
}

TEST_F(AheadTest, EventsFindAConnectorByItsHandle) {
  broker_.spares().connectors[0] = 1;
  Connector connector = adapter_.CreateConnector().value();
  const auto made = broker_.Await<session::CreateConnectorOp>();
  ASSERT_TRUE(connector.Connect(*first_, kThere).ok());
  Made(made.id, {4711});
  session::TransportCommand prepare;
  prepare.connector = {4711};
  prepare.what = session::TransportCommand::What::kPrepare;
  broker_.Send(prepare);
  EXPECT_EQ(broker_.Await<session::TransportReportOp>().connector, session::Handle{4711});
}

TEST_F(AheadTest, AQueuePairCountsInTheSlotThatWasOffered) {
  broker_.spares().queue_pairs[3] = 8;
  ASSERT_TRUE(MakeQueuePair().ok());
  EXPECT_EQ(broker_.Await<session::CreateQueuePairOp>(2).spare, 4u);
  broker_.device().queue_pair->options.counters->tx_bytes = 77;
  EXPECT_EQ(broker_.counters(7)->tx_bytes, 77u);
}

TEST_F(AheadTest, ConnectNamesBoth) {
  broker_.spares().queue_pairs[0] = 8;
  broker_.spares().connectors[0] = 1;
  QueuePair queue_pair = MakeQueuePair().value();
  Connector connector = adapter_.CreateConnector().value();
  ASSERT_TRUE(connector.Connect(queue_pair, kThere).ok());
  const auto connect = broker_.Await<session::ConnectOp>();
  EXPECT_EQ(connect.queue_pair, session::Handle::NameOf(broker_.Await<session::CreateQueuePairOp>(2).id));
  EXPECT_EQ(connect.connector, session::Handle::NameOf(broker_.Await<session::CreateConnectorOp>().id));
}

TEST_F(AheadTest, WithoutASpareTheAnswerIsAwaited) {
  broker_.On<session::CreateConnectorOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = Status(StatusCode::kInsufficientResources, "the quota is used up");
    return reply;
  });
  EXPECT_EQ(adapter_.CreateConnector().code(), StatusCode::kInsufficientResources);
  EXPECT_EQ(broker_.Await<session::CreateConnectorOp>().spare, 0u);
}

TEST_F(AheadTest, NothingIsMadeAheadWhileTheBrokerIsAway) {
  broker_.spares().connectors[0] = 1;
  broker_.Kill();
  StatusCode code;
  while ((code = adapter_.CreateConnector().code()) == StatusCode::kSuccess) std::this_thread::yield();
  EXPECT_EQ(code, StatusCode::kDeviceRemoved);
}

TEST_F(AheadTest, AConnectorThatTheBrokerNeverMadeIsGone) {
  broker_.spares().connectors[0] = 1;
  Connector connector = adapter_.CreateConnector().value();
  broker_.Await<session::CreateConnectorOp>();
  broker_.Kill();
  EXPECT_EQ(connector.Bind(kHere).code(), StatusCode::kDeviceRemoved);
}

}  // namespace
}  // namespace nd::client
