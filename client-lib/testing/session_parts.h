// SPDX-License-Identifier: Apache-2.0
// Parts of the tests of a session.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "client-lib/src/face.h"
#include "client-lib/testing/fake_broker.h"

namespace nd::client {

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

// An established connection, and what it was made of.
struct Established {
  explicit Established(FakeBroker& broker, Adapter& adapter) {
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

}  // namespace nd::client
