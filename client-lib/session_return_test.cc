// SPDX-License-Identifier: Apache-2.0
// A session finds a broker again, and brings its objects to it.
#include <gtest/gtest.h>

#include <future>

#include "client-lib/core/broker_session.h"
#include "client-lib/testing/session_parts.h"

namespace nd::client {
namespace {

// A listener, which returns first, and a queue pair without a connection.
struct Unconnected {
  explicit Unconnected(Adapter& adapter) : listener(adapter.CreateListener().value()) {
    EXPECT_TRUE(listener.Bind(kHere).ok());
    EXPECT_TRUE(listener.Listen().ok());
    queue = adapter.CreateCompletionQueue(16).value();
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue;
    queue_pair = adapter.CreateQueuePair(options).value();
  }
  Listener listener;
  CompletionQueue queue;
  QueuePair queue_pair;
};

TEST(SessionReturn, BringsLiveConnectionsToTheNewBroker) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Established up(broker, adapter);
  Connector idle = adapter.CreateConnector().value();
  Listener listener = adapter.CreateListener().value();
  broker.Kill();
  watch.Await(1);
  broker.Start();
  watch.Await(2);
  EXPECT_TRUE(adapter.connected());
  const auto reattach = broker.Await<session::ReattachOp>();
  EXPECT_EQ(reattach.local, kHere.WithPort(50000));
  EXPECT_EQ(reattach.remote, kThere);
  EXPECT_FALSE(reattach.passive);
  EXPECT_EQ(reattach.proof, kProof);
  EXPECT_EQ(broker.Count<session::CreateQueuePairOp>(), 2u);
  // The connection works again by its new handle. Objects that were not established are removed.
  EXPECT_TRUE(up.connector.GetPrivateData().ok());
  EXPECT_GT(broker.Await<session::GetPrivateDataOp>().connector, reattach.queue_pair);
  EXPECT_EQ(idle.Bind(kHere), StatusCode::kDeviceRemoved);
  EXPECT_EQ(listener.Bind(kHere), StatusCode::kDeviceRemoved);
  EXPECT_TRUE(idle.Close().ok());
  EXPECT_TRUE(listener.Close().ok());
  EXPECT_TRUE(adapter.CreateConnector().ok());
  EXPECT_EQ(up.fake->log(), std::vector<std::string>{"attach"});
}

TEST(SessionReturn, ReturningConnectionBringsItsQueuePairToABrokerThatMakesIt) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Established up(broker, adapter);
  broker.Kill();
  watch.Await(1);
  broker.SetFeatures(provider::kReattachMakesQueuePairs);
  broker.On<session::ReattachOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.handle = {888};
    reply.queue_pair = {777};
    return reply;
  });
  broker.Start();
  watch.Await(2);
  const auto reattach = broker.Await<session::ReattachOp>();
  EXPECT_FALSE(reattach.queue_pair);
  EXPECT_EQ(reattach.receive_depth, QueuePairOptions().receive_depth);
  EXPECT_EQ(reattach.initiator_depth, QueuePairOptions().initiator_depth);
  EXPECT_EQ(reattach.proof, kProof);
  EXPECT_EQ(broker.Count<session::CreateQueuePairOp>(), 1u) << "of the first broker";
  EXPECT_TRUE(up.connector.GetPrivateData().ok());
  EXPECT_EQ(broker.Await<session::GetPrivateDataOp>().connector.value, 888u);
  EXPECT_TRUE(up.connector.Close().ok());
  EXPECT_TRUE(up.queue_pair.Close().ok());
  ASSERT_EQ(broker.Count<session::CloseOp>(), 2u);
  EXPECT_EQ(broker.Await<session::CloseOp>(2).handle.value, 777u);
}

// The connection goes on without the broker, and its queue pair is closed at the broker like every other.
TEST(SessionReturn, QueuePairReturnsAloneWhenItsConnectionIsRefused) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Established up(broker, adapter);
  broker.Kill();
  watch.Await(1);
  broker.SetFeatures(provider::kReattachMakesQueuePairs);
  broker.On<session::ReattachOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = Status(StatusCode::kAccessDenied, "too late");
    return reply;
  });
  broker.On<session::CreateQueuePairOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.handle = {777};
    return reply;
  });
  broker.Start();
  watch.Await(2);
  EXPECT_EQ(broker.Count<session::ReattachOp>(), 1u);
  EXPECT_EQ(broker.Count<session::CreateQueuePairOp>(), 2u);
  EXPECT_EQ(up.fake->log(), std::vector<std::string>{"attach"});
  EXPECT_TRUE(up.queue_pair.Close().ok());
  ASSERT_EQ(broker.Count<session::CloseOp>(), 1u);
  EXPECT_EQ(broker.Await<session::CloseOp>().handle.value, 777u);
}

TEST(SessionReturn, MessagesOfReturningObjectsAreSentTogether) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  CompletionQueue queue = adapter.CreateCompletionQueue(16).value();
  QueuePairOptions options;
  options.receive_cq = options.initiator_cq = &queue;
  std::vector<QueuePair> pairs;
  for (int i = 0; i < 20; ++i) pairs.push_back(adapter.CreateQueuePair(options).value());
  EXPECT_EQ(broker.groups(), 0);
  broker.Kill();
  watch.Await(1);
  broker.Start();
  watch.Await(2);
  EXPECT_EQ(broker.Count<session::CreateQueuePairOp>(), 40u);
  EXPECT_EQ(broker.together(), 20);
  EXPECT_EQ(broker.groups(), 2);
}

// The listeners of a session are away as long as the broker of their host: until it is tried again.
TEST(SessionReturn, BrokerThatIsAwayIsTriedAgainAtTheSameRateForTheTimeOfARestart) {
  FakeBroker broker;
  std::mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> tries;
  Environment environment = broker.environment();
  environment.connect = [&, connect = environment.connect] {
    {
      std::lock_guard lock(mutex);
      tries.push_back(std::chrono::steady_clock::now());
    }
    return connect();
  };
  environment.first_backoff = std::chrono::milliseconds(1);
  Adapter adapter = Made<Adapter>(OpenAdapter(SessionOptions{}, environment)).value();
  broker.Kill();
  const auto enough = [&] {
    std::lock_guard lock(mutex);
    return tries.size() > 60;
  };
  // With doubled intervals the sixtieth try would come after two minutes.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!enough() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(enough());
  broker.Start();
}

TEST(SessionReturn, EndOfAReturningConnectionIsReportedToTheNewBroker) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Established up(broker, adapter);
  broker.Kill();
  watch.Await(1);
  broker.On<session::ReattachOp>([](const session::ClientMessage&) { return std::nullopt; });
  broker.Start();
  const auto reattach = broker.Await<session::ReattachOp>();
  const Status cause(StatusCode::kConnectionAborted, "CRC mismatch.", Detail::kProtocol);
  up.fake->options.on_peer_closed(DisconnectReason::kUnknown, cause);
  session::Completion made{reattach.id, {}, {}};
  made.reply.handle = {888};
  broker.Send(std::move(made));
  watch.Await(2);
  const auto report = broker.Await<session::TransportReportOp>();
  EXPECT_EQ(report.connector.value, 888u);
  EXPECT_EQ(report.status.ToString(), cause.ToString());
}

TEST(SessionReturn, ObjectsClosedDuringTheReturnAreClosedAtTheNewBroker) {
  std::mutex mutex;
  std::vector<session::Handle> closed;
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Unconnected own(adapter);
  broker.Kill();
  watch.Await(1);
  broker.On<session::CreateQueuePairOp>([](const session::ClientMessage&) { return std::nullopt; });
  broker.On<session::CloseOp>([&](const session::ClientMessage& message) {
    std::lock_guard lock(mutex);
    closed.push_back(std::get<session::CloseOp>(std::get<session::Operation>(message.content)).handle);
    return Reply();
  });
  broker.Start();
  // Listeners return first: this one is back, and the queue pair is being made.
  const auto on_its_way = broker.Await<session::CreateQueuePairOp>(2);
  const session::Handle back = broker.Await<session::ListenOp>(2).listener;
  EXPECT_TRUE(own.listener.Close().ok());
  EXPECT_TRUE(own.queue_pair.Close().ok());
  session::Completion made{on_its_way.id, {}, {}};
  made.reply.handle = {777};
  broker.Send(std::move(made));
  watch.Await(2);
  // Its answer follows everything that was sent before.
  const Result<Connector> last = adapter.CreateConnector();
  EXPECT_TRUE(last.ok());
  std::lock_guard lock(mutex);
  EXPECT_EQ(closed, (std::vector<session::Handle>{back, {777}}));
}

TEST(SessionReturn, AListenerAcceptsWhileOtherObjectsStillReturn) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Unconnected returning(adapter);
  broker.Kill();
  watch.Await(1);
  broker.On<session::CreateQueuePairOp>([](const session::ClientMessage&) { return std::nullopt; });
  broker.Start();
  const auto on_its_way = broker.Await<session::CreateQueuePairOp>(2);
  Result<Connector> connector = adapter.CreateConnector();
  ASSERT_TRUE(connector.ok()) << connector.status().ToString();
  EXPECT_TRUE(returning.listener.GetConnectionRequest(*connector).ok());
  EXPECT_FALSE(adapter.connected()) << "one object has not returned";
  broker.Send(session::Completion{on_its_way.id, {}, {}});
  watch.Await(2);
  EXPECT_TRUE(adapter.connected());
}

TEST(SessionReturn, BringsListenersAndSharedEndpointsToTheNewBroker) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Established up(broker, adapter);
  Listener listener = adapter.CreateListener().value(), bound = adapter.CreateListener().value();
  const Address given = kHere.WithPort(50000);  // The fake broker gives this address, whatever was asked for.
  ASSERT_TRUE(listener.Bind(kHere).ok());
  ASSERT_TRUE(listener.Listen(17).ok());
  ASSERT_TRUE(listener.ControlConnectEvents(true).ok());
  ASSERT_TRUE(bound.Bind(kHere).ok());
  SharedEndpoint endpoint = adapter.CreateSharedEndpoint(kHere).value();
  broker.Kill();
  watch.Await(1);
  // One listener was closed while the broker was away.
  EXPECT_TRUE(bound.Close().ok());
  EXPECT_EQ(listener.Listen(), StatusCode::kDeviceRemoved);
  broker.Start();
  watch.Await(2);
  EXPECT_EQ(broker.Count<session::CreateListenerOp>(), 3u);
  EXPECT_EQ(broker.Count<session::CreateSharedEndpointOp>(), 2u);
  const auto bind = broker.Await<session::BindOp>();
  const auto listen = broker.Await<session::ListenOp>();
  const auto pause = broker.Await<session::ControlConnectEventsOp>();
  EXPECT_EQ(bind.local, given);
  EXPECT_EQ(listen.backlog, 17u);
  EXPECT_TRUE(pause.pause);
  EXPECT_EQ(bind.handle, listen.listener);
  EXPECT_LT(listen.listener, broker.Await<session::ReattachOp>().queue_pair) << "before the connections";
  // They work again by their new names.
  EXPECT_TRUE(listener.Cancel().ok());
  EXPECT_EQ(broker.Await<session::CancelOp>().handle, bind.handle);
  EXPECT_TRUE(listener.Close().ok());
  EXPECT_EQ(broker.Await<session::CloseOp>().handle, bind.handle);
  EXPECT_TRUE(endpoint.Close().ok());
}

TEST(SessionReturn, AListenerWhoseAddressIsTakenStaysDead) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Listener listener = adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(kHere).ok());
  broker.Kill();
  watch.Await(1);
  broker.On<session::BindOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = Status(StatusCode::kSharingViolation, "taken");
    return reply;
  });
  broker.Start();
  watch.Await(2);
  EXPECT_EQ(broker.Await<session::CloseOp>().handle, broker.Await<session::BindOp>().handle);
  EXPECT_EQ(listener.Listen(), StatusCode::kDeviceRemoved);
  EXPECT_TRUE(listener.Close().ok());
}

TEST(SessionReturn, TheNewBrokerSeesWhatALiveConnectionCounts) {
  FakeBroker broker;
  broker.GiveCounters(3);
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Established up(broker, adapter);
  provider::QpCounters* counted = up.fake->options.counters;
  counted->tx_bytes = 100;
  EXPECT_EQ(broker.counters(3)->tx_bytes, 100u);
  broker.Kill();
  watch.Await(1);
  counted->reads_in_flight_max = 4;
  broker.GiveCounters(5);
  broker.Start();
  watch.Await(2);
  EXPECT_EQ(broker.counters(5)->tx_bytes, 100u);
  EXPECT_EQ(broker.counters(5)->reads_in_flight_max, 4u);
  counted->tx_bytes = 300;  // The queue pair still counts in its first page.
  while (broker.counters(5)->tx_bytes != 300) std::this_thread::yield();
  broker.Kill();  // A third broker follows.
  watch.Await(3);
  broker.GiveCounters(7);
  broker.Start();
  watch.Await(4);
  EXPECT_EQ(broker.counters(7)->tx_bytes, 300u);
  EXPECT_TRUE(up.connector.Close().ok());
  EXPECT_TRUE(up.queue_pair.Close().ok());
  EXPECT_FALSE(
      Core(up.queue_pair.impl())->adapter->session->carried().Copy());  // The slot is free for the next one.
}
}  // namespace
}  // namespace nd::client
