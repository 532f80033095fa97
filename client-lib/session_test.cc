// SPDX-License-Identifier: Apache-2.0
// The session itself: opening, closing, losing the broker and finding it again, fork.
#include "client-lib/core/broker_session.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "client-lib/src/face.h"
#include "client-lib/testing/fake_broker.h"

namespace nd::client {
namespace {

// Waits for changes of the session.
class Watch {
 public:
  explicit Watch(Adapter& adapter) {
    adapter.SetSessionCallback([this](bool connected) {
      std::lock_guard lock(mutex_);
      history_.push_back(connected);
      changed_.notify_all();
    });
  }
  void Await(std::size_t changes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return history_.size() >= changes; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> history_;
};

TEST(Session, SaysWhyItCannotOpen) {
  FakeBroker broker;
  broker.Kill();
  auto adapter = OpenAdapter({}, broker.environment());
  EXPECT_EQ(adapter.code(), StatusCode::kDeviceNotReady);
  broker.Start();
  broker.On<session::OpenAdapterOp>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = Status(StatusCode::kInvalidParameter, "no such adapter");
    return reply;
  });
  EXPECT_EQ(OpenAdapter({}, broker.environment()).code(), StatusCode::kInvalidParameter);
  broker.On<session::Hello>([](const session::ClientMessage&) {
    Reply reply;
    reply.status = Status(StatusCode::kAccessDenied, "policy");
    return reply;
  });
  EXPECT_EQ(OpenAdapter({}, broker.environment()).code(), StatusCode::kAccessDenied);
}

TEST(Session, HandlesOfAClosedAdapterAreInvalid) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  CompletionQueue queue = adapter.CreateCompletionQueue(4).value();
  Connector connector = adapter.CreateConnector().value();
  Buffer buffer = adapter.AllocateBuffer(64).value();
  MemoryRegion region = adapter.Register(buffer, kAllowLocalWrite).value();
  EXPECT_TRUE(adapter.Close().ok());
  EXPECT_EQ(broker.Count<session::CloseOp>(), 1u);
  EXPECT_EQ(broker.device().region->deregistered, 1);
  EXPECT_EQ(adapter.Close(), StatusCode::kInvalidHandle);
  EXPECT_EQ(connector.Bind(kHere), StatusCode::kInvalidHandle);
  EXPECT_EQ(queue.state(), StatusCode::kInvalidHandle);
  EXPECT_EQ(adapter.CreateConnector().code(), StatusCode::kInvalidHandle);
  EXPECT_EQ(adapter.CreateCompletionQueue(4).code(), StatusCode::kInvalidHandle);
}

TEST(Session, CloseOfTheAdapterWaitsForRunningCallbacks) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Connector connector = adapter.CreateConnector().value();
  Listener listener = adapter.CreateListener().value();
  std::promise<void> entered, leave;
  std::promise<Status> inside;
  std::atomic<bool> left = false;
  Request request([&](const Status&) {
    inside.set_value(adapter.Close());
    entered.set_value();
    leave.get_future().wait();
    left = true;
  });
  ASSERT_TRUE(listener.GetConnectionRequest(connector, &request).pending());
  entered.get_future().wait();
  EXPECT_EQ(inside.get_future().get(), StatusCode::kInvalidDeviceState);
  auto closed = std::async(std::launch::async, [&] {
    Status status = adapter.Close();
    return std::pair(status.code(), left.load());
  });
  broker.Await<session::CloseOp>(2);
  leave.set_value();
  EXPECT_EQ(closed.get(), std::pair(StatusCode::kSuccess, true));
}

TEST(Session, PendingOperationsAreCanceledByClosing) {
  FakeBroker broker;
  broker.On<session::GetConnectionRequestOp>([](const session::ClientMessage&) { return std::nullopt; });
  Adapter adapter = broker.Open();
  Connector connector = adapter.CreateConnector().value();
  Listener listener = adapter.CreateListener().value();
  Request request;
  ASSERT_TRUE(listener.GetConnectionRequest(connector, &request).pending());
  EXPECT_TRUE(adapter.Close().ok());
  EXPECT_EQ(request.GetResult(), StatusCode::kCanceled);
}

struct Up {
  explicit Up(FakeBroker& broker, Adapter& adapter) {
    queue = adapter.CreateCompletionQueue(16).value();
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue;
    queue_pair = adapter.CreateQueuePair(options).value();
    fake = broker.device().queue_pair;
    connector = adapter.CreateConnector().value();
    EXPECT_TRUE(connector.Bind(kHere).ok());
    EXPECT_TRUE(connector.Connect(queue_pair, kThere).ok());
    EXPECT_TRUE(connector.CompleteConnect().ok());
  }
  CompletionQueue queue;
  QueuePair queue_pair;
  std::shared_ptr<FakeQueuePair> fake;
  Connector connector;
};

// It would be woken for each handle that goes.
TEST(Session, CloseThatNobodyWaitsForDoesNotCallTheReader) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  { Up up(broker, adapter); }
  const int before = broker.attended();
  { Up up(broker, adapter); }
  broker.Await<session::CloseOp>(4);
  EXPECT_EQ(broker.attended(), before);
  Up up(broker, adapter);
  Request request;
  static_cast<void>(up.connector.NotifyDisconnect(&request));
  EXPECT_EQ(broker.attended(), before + 1);
  EXPECT_TRUE(request.GetResult().ok());
}

TEST(Session, OnlyACloseThatNobodyWaitsForIsPutOff) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  { Up up(broker, adapter); }
  EXPECT_EQ(broker.put_off(), 2);
  Up up(broker, adapter);
  EXPECT_TRUE(up.connector.Disconnect().ok());
  EXPECT_TRUE(up.connector.Close().ok());
  EXPECT_TRUE(up.queue_pair.Close().ok());
  EXPECT_EQ(broker.put_off(), 2);
}

TEST(Session, WithoutTheBrokerTheConnectionLivesOn) {
  FakeBroker broker;
  Adapter adapter = broker.Open({.reconnect = false});
  Watch watch(adapter);
  Up up(broker, adapter);
  broker.On<session::NotifyDisconnectOp>([](const session::ClientMessage&) { return std::nullopt; });
  Request pending, local;
  ASSERT_TRUE(up.connector.NotifyDisconnect(&pending).pending());
  broker.Kill();
  watch.Await(1);
  EXPECT_EQ(pending.GetResult(), StatusCode::kDeviceRemoved);
  EXPECT_EQ(pending.GetResult().detail(), Detail::kBrokerUnreachable);
  EXPECT_FALSE(adapter.connected());
  EXPECT_EQ(adapter.CreateConnector().code(), StatusCode::kDeviceRemoved);
  EXPECT_TRUE(up.queue_pair.Send(nullptr, {}).ok());
  ASSERT_TRUE(up.connector.NotifyDisconnect(&local).pending());
  EXPECT_TRUE(up.connector.Disconnect().ok());
  EXPECT_EQ(local.GetResult(), StatusCode::kConnectionDisconnected);
  EXPECT_EQ(up.connector.Disconnect(), StatusCode::kConnectionInvalid);
  EXPECT_EQ(up.fake->log(), (std::vector<std::string>{"attach", "send", "disconnect"}));
  EXPECT_TRUE(up.connector.Close().ok());
  EXPECT_TRUE(up.queue_pair.Close().ok());
}

TEST(Session, TellsChangesOfTheAdapter) {
  using What = session::AdapterEvent::What;
  FakeBroker broker;
  Adapter adapter = broker.Open();
  std::vector<AdapterChange> changes;
  std::promise<void> told;
  adapter.SetAdapterCallback([&](AdapterChange change) {
    changes.push_back(change);
    if (changes.size() == 3) told.set_value();
  });
  for (const What what : {What::kDisabled, What::kEnabled, What::kRemoved}) {
    broker.Send(session::AdapterEvent{{}, what});
  }
  ASSERT_EQ(told.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(changes,
            (std::vector{AdapterChange::kDisabled, AdapterChange::kEnabled, AdapterChange::kRemoved}));
}

TEST(Session, WithoutTheBrokerThePeersGoodbyeIsHeard) {
  FakeBroker broker;
  Adapter adapter = broker.Open({.reconnect = false});
  Watch watch(adapter);
  std::promise<DisconnectReason> called;
  Up up(broker, adapter);
  up.connector.SetDisconnectCallback([&](DisconnectReason reason) { called.set_value(reason); });
  broker.Kill();
  watch.Await(1);
  Request local;
  ASSERT_TRUE(up.connector.NotifyDisconnect(&local).pending());
  up.fake->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  EXPECT_TRUE(local.GetResult().ok());
  EXPECT_EQ(called.get_future().get(), DisconnectReason::kPeerDisconnected);
  EXPECT_TRUE(up.connector.NotifyDisconnect().ok());
  EXPECT_TRUE(up.connector.Disconnect().ok());
  EXPECT_EQ(up.fake->log(), (std::vector<std::string>{"attach", "disconnect", "flush"}));
}

TEST(Session, BringsLiveConnectionsToTheNewBroker) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Up up(broker, adapter);
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

TEST(Session, ReturningConnectionBringsItsQueuePairToABrokerThatMakesIt) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Up up(broker, adapter);
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
TEST(Session, QueuePairReturnsAloneWhenItsConnectionIsRefused) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Up up(broker, adapter);
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

TEST(Session, MessagesOfReturningObjectsAreSentTogether) {
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
TEST(Session, BrokerThatIsAwayIsTriedAgainAtTheSameRateForTheTimeOfARestart) {
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

TEST(Session, EndOfAReturningConnectionIsReportedToTheNewBroker) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Up up(broker, adapter);
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

TEST(Session, ObjectsClosedDuringTheReturnAreClosedAtTheNewBroker) {
  std::mutex mutex;
  std::vector<session::Handle> closed;
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Listener listener = adapter.CreateListener().value();
  ASSERT_TRUE(listener.Bind(kHere).ok());
  ASSERT_TRUE(listener.Listen().ok());
  CompletionQueue queue = adapter.CreateCompletionQueue(16).value();
  QueuePairOptions options;
  options.receive_cq = options.initiator_cq = &queue;
  QueuePair queue_pair = adapter.CreateQueuePair(options).value();
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
  EXPECT_TRUE(listener.Close().ok());
  EXPECT_TRUE(queue_pair.Close().ok());
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

TEST(Session, BringsListenersAndSharedEndpointsToTheNewBroker) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Up up(broker, adapter);
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

TEST(Session, AListenerWhoseAddressIsTakenStaysDead) {
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

TEST(Session, TheNewBrokerSeesWhatALiveConnectionCounts) {
  FakeBroker broker;
  broker.GiveCounters(3);
  Adapter adapter = broker.Open();
  Watch watch(adapter);
  Up up(broker, adapter);
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

TEST(Session, AForkedChildIsRefusedAndDisturbsNothing) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Up up(broker, adapter);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool refused = adapter.CreateConnector().code() == StatusCode::kInvalidHandle &&
                   adapter.Close() == StatusCode::kInvalidHandle &&
                   up.connector.Disconnect() == StatusCode::kInvalidHandle &&
                   up.queue_pair.Send(nullptr, {}) == StatusCode::kInvalidHandle && !adapter.connected();
    { Up gone = std::move(up); }
    adapter = Adapter();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(adapter.connected());
  EXPECT_TRUE(up.connector.GetPrivateData().ok());
  EXPECT_EQ(up.fake->log(), std::vector<std::string>{"attach"});
}

TEST(Session, ManyThreadsShareIt) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        Connector connector = adapter.CreateConnector().value();
        EXPECT_TRUE(connector.Bind(kHere).ok());
        if (round % 2 == 0) {
          EXPECT_TRUE(connector.Close().ok());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(adapter.Close().ok());
  EXPECT_EQ(broker.Count<session::CloseOp>(), 800u);
}

// Blocking callers take turns with the session's thread in reading the lane.
TEST(Session, EveryCallEndsWhileTheBrokerComesAndGoes) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  std::atomic<bool> over = false;
  std::atomic<std::uint64_t> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        Result<Connector> connector = adapter.CreateConnector();
        if (connector.ok() && connector->Bind(kHere).ok()) ++good;
      }
    });
  }
  threads.emplace_back([&] {
    while (!over) {
      Result<Listener> listener = adapter.CreateListener();
      Result<Connector> connector = adapter.CreateConnector();
      if (!listener.ok() || !connector.ok()) continue;
      Request request;
      if (listener->GetConnectionRequest(*connector, &request).pending() && request.GetResult().ok()) ++good;
    }
  });
  for (int i = 0; i < 10; ++i) {
    for (const std::uint64_t before = good; good < before + 20;) std::this_thread::yield();
    broker.Kill();
    broker.Start();
  }
  over = true;
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(adapter.Close().ok());
}

}  // namespace
}  // namespace nd::client
