// SPDX-License-Identifier: Apache-2.0
// A session and fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client-lib/testing/session_parts.h"

namespace nd::client {
namespace {

TEST(Session, AForkedChildIsRefusedAndDisturbsNothing) {
  FakeBroker broker;
  Adapter adapter = broker.Open();
  Established up(broker, adapter);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool refused = adapter.CreateConnector().code() == StatusCode::kInvalidHandle &&
                   adapter.Close() == StatusCode::kInvalidHandle &&
                   up.connector.Disconnect() == StatusCode::kInvalidHandle &&
                   up.queue_pair.Send(nullptr, {}) == StatusCode::kInvalidHandle && !adapter.connected();
    { Established gone = std::move(up); }
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

}  // namespace
}  // namespace nd::client
