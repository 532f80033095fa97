// SPDX-License-Identifier: Apache-2.0
// The session itself: opening, closing, losing the broker.
#include "client-lib/core/broker_session.h"

#include <gtest/gtest.h>

#include <future>

#include "client-lib/src/face.h"
#include "client-lib/testing/session_parts.h"

namespace nd::client {
namespace {

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

// It would be woken for each handle that goes.
TEST(Session, CloseThatNobodyWaitsForDoesNotCallTheReader) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  { Established up(broker, adapter); }
  const int before = broker.attended();
  { Established up(broker, adapter); }
  broker.Await<session::CloseOp>(4);
  EXPECT_EQ(broker.attended(), before);
  Established up(broker, adapter);
  Request request;
  static_cast<void>(up.connector.NotifyDisconnect(&request));
  EXPECT_EQ(broker.attended(), before + 1);
  EXPECT_TRUE(request.GetResult().ok());
}

TEST(Session, DisconnectAfterThePeersDisconnectIsPutOffAndDoesNotCallTheReader) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Established up(broker, adapter);
  up.fake->options.on_peer_closed(DisconnectReason::kPeerDisconnected, {});
  const int attended = broker.attended(), put_off = broker.put_off();
  EXPECT_TRUE(up.connector.Disconnect().ok());
  EXPECT_EQ(broker.attended(), attended);
  EXPECT_EQ(broker.put_off(), put_off + 1);
  EXPECT_TRUE(up.connector.Close().ok());
  const std::vector<std::string> names = broker.Names();
  ASSERT_GE(names.size(), 2u);
  EXPECT_EQ(std::vector(names.end() - 2, names.end()), (std::vector<std::string>{"Disconnect", "Close"}));
}

TEST(Session, CloseThatSomebodyWaitsForIsNotPutOff) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  { Established up(broker, adapter); }
  EXPECT_EQ(broker.put_off(), 2);
  Established up(broker, adapter);
  EXPECT_TRUE(up.connector.Disconnect().ok());
  EXPECT_TRUE(up.connector.Close().ok());
  EXPECT_TRUE(up.queue_pair.Close().ok());
  EXPECT_EQ(broker.put_off(), 2);
}

TEST(Session, WithoutTheBrokerTheConnectionLivesOn) {
  FakeBroker broker;
  Adapter adapter = broker.Open({.reconnect = false});
  Watch watch(adapter);
  Established up(broker, adapter);
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
  Established up(broker, adapter);
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
