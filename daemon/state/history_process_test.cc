// SPDX-License-Identifier: Apache-2.0
// The history of a real daemon: how each connection ended, what administrators ordered, and that a restart
// keeps both.
#include <thread>

#include "daemon/state/history_db.h"
#include "daemon/state/restart_fixture.h"

namespace nd::state {
namespace {

using HistoryProcessTest = RestartTest;

TEST_F(HistoryProcessTest, HasTheEndOfEachConnection) {
  StartBroker("");
  Listener listener = Listen(kPort);
  const auto accept = [&](End& end) {
    EXPECT_TRUE(listener.GetConnectionRequest(end.connector).ok());
    Request accepted;
    static_cast<void>(end.connector.Accept(end.pair, {}, &accepted));
    EXPECT_TRUE(accepted.GetResult().ok());
  };
  const auto pair_up = [&](End& client, End& server) {
    std::thread other([&] { accept(server); });
    EXPECT_TRUE(ConnectTo(client, kPort).ok());
    other.join();
  };
  // Waits for the outcomes, newest first.
  const auto outcomes = [&](const std::string& request) {
    const Flat rows = daemon_->Admin("ListHistory", request);
    EXPECT_TRUE(rows.ok()) << rows.error;
    std::string text;
    for (std::size_t i = 0; i < rows.Count("items"); ++i) {
      text += rows["items." + std::to_string(i) + ".outcome"] + " ";
    }
    return text;
  };
  const auto await = [&](const std::string& wanted) {
    return Eventually([&] { return outcomes("") == wanted; }, seconds(20)) ? "" : outcomes("");
  };
  {
    End client(adapter_), server(adapter_);
    pair_up(client, server);
    EXPECT_TRUE(client.connector.Disconnect().ok());
    EXPECT_TRUE(Eventually([&] { return outcomes("") == "closed closed "; })) << outcomes("");
  }
  {
    End lonely(adapter_);
    EXPECT_EQ(ConnectTo(lonely, kOther), StatusCode::kConnectionRefused);
    EXPECT_EQ(await("failed closed closed "), "");
  }
  {
    testing::Process peer = Run({"--peer", daemon_->directory()});
    End server(adapter_);
    accept(server);
    peer.Kill();
    EXPECT_TRUE(Eventually([&] {
      const std::string all = outcomes("");
      return all.find("died") != all.npos && all.find("broken") != all.npos;
    })) << outcomes("");
  }
  {
    End client(adapter_), server(adapter_);
    pair_up(client, server);
    const Flat rows = daemon_->Admin("ListConnections");
    std::string id;
    for (std::size_t i = 0; i < rows.Count("items"); ++i) {
      const std::string row = "items." + std::to_string(i) + ".";
      if (rows[row + "state"] == "Connected") id = rows[row + "id"];
    }
    EXPECT_TRUE(daemon_->Change("KillConnection", "id: \"" + id + "\"").ok());
    EXPECT_TRUE(Eventually([&] { return outcomes("").find("killed") != std::string::npos; })) << outcomes("");
  }
  EXPECT_EQ(daemon_->Change("KillConnection", "id: \"c-1\""), StatusCode::kInvalidHandle);
  const std::string failed = outcomes("failed_only: true");
  EXPECT_NE(failed.find("failed"), failed.npos);
  EXPECT_NE(failed.find("broken"), failed.npos);
  EXPECT_EQ(failed.find("closed"), failed.npos);
  EXPECT_EQ(outcomes("adapter: \"other\""), "");
  EXPECT_EQ(outcomes("until: \"2001-01-01T00:00:00Z\""), "");
  EXPECT_FALSE(daemon_->Admin("ListHistory", "since: \"yesterday\"").ok());
  EXPECT_FALSE(daemon_->Admin("ListHistory", "peer: \"nobody\"").ok());
  const Flat one = daemon_->Admin("ListHistory", "limit: 1");
  EXPECT_EQ(one.Count("items"), 1u);
  EXPECT_EQ(one["truncated"], "true");
  const Flat why = daemon_->Admin("ListHistory", "failed_only: true peer: \"127.0.0.1:7001\"");
  ASSERT_EQ(why.Count("items"), 1u);
  EXPECT_EQ(why["items.0.status"], "CONNECTION_REFUSED");
  EXPECT_EQ(why["items.0.detail"], "no listener");
  EXPECT_EQ(why["items.0.owner.pid"], std::to_string(::getpid()));
  EXPECT_GE(why.Count("items.0.phases"), 1u);
  // An orderly restart keeps all rows, audit rows included.
  const std::string before = outcomes("");
  ASSERT_TRUE(daemon_->Stop());
  ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  const std::string after = outcomes("");
  EXPECT_TRUE(after.ends_with(before)) << after << " / " << before;
  const auto db = HistoryDb::Open(daemon_->directory() + "/history.db", HistoryDb::Mode::kRead);
  ASSERT_TRUE(db.ok()) << db.status().ToString();
  const auto audit = (*db)->ListAudit(10);
  ASSERT_EQ(audit->size(), 2u);
  EXPECT_EQ((*audit)[1].type, "admin.connection-kill");
  EXPECT_EQ((*audit)[1].outcome, "SUCCESS");
  EXPECT_EQ((*audit)[1].uid, ::getuid());
  EXPECT_NE((*audit)[1].pid, 0u);
  EXPECT_EQ((*audit)[0].object, "c-1");
  EXPECT_EQ((*audit)[0].outcome, "INVALID_HANDLE");
}

}  // namespace
}  // namespace nd::state
