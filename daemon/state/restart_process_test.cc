// SPDX-License-Identifier: Apache-2.0
// Real daemons that are killed and restarted: no port is stolen in between. Attackers and peers are other
// processes of this program.
#include <gtest/gtest.h>
#include <nd/nd.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "daemon/state/restart_fixture.h"
#include "tests/testing/network.h"

namespace nd::state {
namespace {

// Tries to take the port by every operation, as fast as it can, until it is told to stop.
int Attack(const std::string& directory, const std::string& path) {
  SharedScore score(path);
  const auto note = [&](const Status& status) {
    if (status.ok()) ++score->thefts;
    if (status.message().find("reclaim-grace") != std::string::npos) ++score->refused;
    return !(status == StatusCode::kDeviceRemoved);
  };
  while (!score->stop) {
    OpenOptions options;
    options.broker = directory;
    options.reconnect = false;
    Result<Adapter> adapter = Adapter::Open(options);
    while (adapter.ok() && !score->stop) {
      Result<Listener> listener = adapter->CreateListener();
      Result<Connector> connector = adapter->CreateConnector();
      if (!listener.ok() || !connector.ok()) break;
      if (!note(listener->Bind(Local(kPort)))) break;
      if (!note(connector->Bind(Local(kPort)))) break;
      if (!note(listener->Bind(Address::Parse("0.0.0.0").value().WithPort(kPort)))) break;
    }
  }
  return 0;
}

// Listens on the port and waits for its end.
int Hold(const std::string& directory, std::uint16_t port) {
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 1;
  Result<Listener> listener = adapter->CreateListener();
  if (!listener.ok() || !listener->Bind(Local(port)).ok() || !listener->Listen().ok()) return 1;
  for (;;) ::pause();
}

TEST_F(RestartTest, NoPortIsStolenWhileTheBrokerIsAway) {
  StartBroker("reclaim-grace = \"10min\"");
  testing::Process owner = Run({"--hold", daemon_->directory(), std::to_string(kPort)});
  ASSERT_TRUE(Eventually([&] { return Listens(kPort); }));
  StartAttackers();
  std::uint64_t attempts = 0;
  // A fourth round would be a crash loop, which has rules of its own.
  for (int round = 0; round < 3; ++round) {
    owner.Pause();
    std::vector<std::uint64_t> before;
    for (auto& [score, process] : attackers_) before.push_back(score->refused);
    KillAndStart();
    // Each attacker has made attempts before the owner continues.
    for (std::size_t i = 0; i < attackers_.size(); ++i) {
      ASSERT_TRUE(Eventually([&] { return attackers_[i].first->refused >= before[i] + 100; }, seconds(60)))
          << "attacker " << i << " in round " << round << ": " << daemon_->log();
      attempts += attackers_[i].first->refused - before[i];
    }
    EXPECT_EQ(KindOf(kPort), "lease");
    owner.Resume();
    ASSERT_TRUE(Eventually([&] { return Listens(kPort); }, seconds(30))) << daemon_->log();
    EXPECT_EQ(Thefts(), 0u);
  }
  std::printf("%llu attempts in 3 restarts, %llu thefts\n", static_cast<unsigned long long>(attempts),
              static_cast<unsigned long long>(Thefts()));
  // When the grace time ends without the owner, the port is free.
  owner.Pause();
  KillAndStart();
  EXPECT_EQ(KindOf(kPort), "lease");
  EXPECT_TRUE(daemon_->SkipTime(minutes(10)).ok());
  EXPECT_TRUE(Eventually([&] { return Thefts() > 0; }, seconds(60)));
}

// A user who can make the broker end gets no port by it, however often and however fast it ends.
TEST_F(RestartTest, NobodyStealsAPortAfterManyUnexpectedEnds) {
  if (!testing::CanBeAnotherUser()) GTEST_SKIP() << "needs two users";
  StartBroker("reclaim-grace = \"10min\"");
  testing::Process owner = Run({"--hold", daemon_->directory(), std::to_string(kPort)}, 65533);
  ASSERT_TRUE(Eventually([&] { return Listens(kPort); }));
  owner.Pause();
  StartAttackers();
  std::uint64_t attempts = 0;
  for (int end = 0; end < 14; ++end) {
    std::vector<std::uint64_t> before;
    for (auto& [score, process] : attackers_) before.push_back(score->refused);
    KillAndStart();
    EXPECT_EQ(KindOf(kPort), "lease") << end;
    for (std::size_t i = 0; i < attackers_.size(); ++i) {
      ASSERT_TRUE(Eventually([&] { return attackers_[i].first->refused >= before[i] + 10; }, seconds(60)))
          << "attacker " << i << " after end " << end << ": " << daemon_->log();
      attempts += attackers_[i].first->refused - before[i];
    }
    ASSERT_EQ(Thefts(), 0u) << end;
  }
  EXPECT_NE(daemon_->log().find("is set aside"), std::string::npos) << daemon_->log();
  std::printf("%llu attempts after 14 unexpected ends, %llu thefts\n",
              static_cast<unsigned long long>(attempts), static_cast<unsigned long long>(Thefts()));
  owner.Resume();
  EXPECT_TRUE(Eventually([&] { return Listens(kPort); }, seconds(30))) << daemon_->log();
  EXPECT_EQ(Thefts(), 0u);
}

// Returns true when a plain socket can bind the port.
bool HostGives(std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  const auto length = static_cast<socklen_t>(Local(port).ToSockaddr(&storage));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) == 0 &&
         ::listen(fd.get(), 1) == 0;
}

TEST_F(RestartTest, HostPortsAreKeptFromEveryProgram) {
  StartBroker("reclaim-grace = \"10min\"", "tcp");
  testing::Process owner = Run({"--hold", daemon_->directory(), std::to_string(kPort)});
  ASSERT_TRUE(Eventually([&] { return Listens(kPort); }));
  owner.Pause();
  KillAndStart();
  ASSERT_EQ(KindOf(kPort), "lease");
  EXPECT_FALSE(HostGives(kPort));
  owner.Resume();
  while (!Listens(kPort)) ASSERT_FALSE(HostGives(kPort)) << "while it changed hands";
  // Another program takes the port before the broker returns, and keeps it.
  owner.Pause();
  daemon_->Kill();
  const UniqueFd thief(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  const auto length = static_cast<socklen_t>(Local(kPort).ToSockaddr(&storage));
  const int on = 1;
  ::setsockopt(thief.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ASSERT_EQ(::bind(thief.get(), reinterpret_cast<const sockaddr*>(&storage), length), 0);
  ASSERT_EQ(::listen(thief.get(), 1), 0);
  ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  const Flat ports = daemon_->Admin("ListPorts", "id: \"" + Local(kPort).ToString() + "\"");
  EXPECT_EQ(ports["items.0.state"].substr(0, 7), "unheld:") << ports["items.0.state"];
  EXPECT_NE(daemon_->log().find("not from other programs of this host"), std::string::npos);

  const std::string reserve = "port reserve " + Local(kPort).ToString();
  owner.Kill();
  daemon_->Kill();
  ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  EXPECT_NE(daemon_->Ndctl(reserve).find("is in use by another program of this host"), std::string::npos);
  EXPECT_EQ(KindOf(kPort), "") << "what was refused is not listed";
  EXPECT_NE(daemon_->Ndctl("port reserve " + Local(kOther).ToString()).find("is reserved for"),
            std::string::npos);
  EXPECT_EQ(KindOf(kOther), "reservation");
  EXPECT_FALSE(HostGives(kOther));
  EXPECT_NE(daemon_->Ndctl("port release " + Local(kOther).ToString()), "");
  EXPECT_TRUE(HostGives(kOther));
}

// Without the journal the same attackers succeed.
TEST_F(RestartTest, WithoutGraceThePortIsStolen) {
  StartBroker("reclaim-grace = \"0s\"");
  testing::Process owner = Run({"--hold", daemon_->directory(), std::to_string(kPort)});
  ASSERT_TRUE(Eventually([&] { return Listens(kPort); }));
  StartAttackers();
  owner.Pause();  // Otherwise the owner may return before the attackers try.
  KillAndStart();
  EXPECT_TRUE(Eventually([&] { return Thefts() > 0; }, seconds(60)));
}

TEST_F(RestartTest, OrderlyAndRepeatedRestartsKeepThePort) {
  StartBroker("reclaim-grace = \"10min\"");
  testing::Process holder = Run({"--hold", daemon_->directory(), std::to_string(kOther)});
  ASSERT_TRUE(Eventually([&] { return Listens(kOther); }));
  holder.Pause();  // The holder lives but does not return.
  ASSERT_TRUE(daemon_->Stop());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(daemon_->Start()) << daemon_->log();
    EXPECT_EQ(KindOf(kOther), "lease") << i;
    adapter_ = Open();
    EXPECT_EQ(adapter_.CreateConnector()->Bind(Local(kOther)), StatusCode::kSharingViolation);
    daemon_->Kill();
  }
  // The leases of an ended process are free.
  holder.Kill();
  ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  EXPECT_EQ(KindOf(kOther), "");
  adapter_ = Open();
  EXPECT_TRUE(adapter_.CreateConnector()->Bind(Local(kOther)).ok());
}

// The broker is back before the application that listens: the request waits for it and is not refused.
TEST_F(RestartTest, ARequestWaitsForAListenerThatIsStillAway) {
  for (const bool returns : {true, false}) {
    StartBroker("reclaim-grace = \"10min\"");
    testing::Process owner = Run({"--hold", daemon_->directory(), std::to_string(kPort)});
    ASSERT_TRUE(Eventually([&] { return Listens(kPort); }));
    owner.Pause();
    KillAndStart();
    adapter_ = Open();
    End client(adapter_);
    ASSERT_TRUE(client.connector.Bind(Local(0)).ok());
    Request connect;
    ASSERT_TRUE(client.connector.Connect(client.pair, Local(kPort), {}, &connect).pending());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_TRUE(connect.GetResult(false).pending()) << connect.GetResult().ToString();
    if (returns) {
      owner.Resume();
      ASSERT_TRUE(Eventually([&] { return Listens(kPort); }, seconds(30)));
    }
    EXPECT_TRUE(daemon_->SkipTime(seconds(2)).ok());
    if (returns) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_TRUE(connect.GetResult(false).pending()) << "it is in the backlog of the listener";
    } else {
      const Status refused = connect.GetResult();
      EXPECT_EQ(refused, StatusCode::kConnectionRefused);
      EXPECT_EQ(refused.detail(), Detail::kNoListener) << refused.ToString();
    }
  }
}

TEST_F(RestartTest, ListenersReturnByThemselves) {
  StartBroker("");
  Listener listener = Listen(kPort);
  std::promise<Connector> delivered;
  Listener events =
      adapter_.NdkListen(Local(kOther), [&](Connector c) { delivered.set_value(std::move(c)); }).value();
  SharedEndpoint endpoint = adapter_.CreateSharedEndpoint(Local(0)).value();
  const Address shared = endpoint.GetLocalAddress().value();
  Request waiting;
  Connector waits = adapter_.CreateConnector().value();
  EXPECT_TRUE(listener.GetConnectionRequest(waits, &waiting).pending());
  KillAndStart();
  EXPECT_EQ(waiting.GetResult(), StatusCode::kDeviceRemoved);
  ASSERT_TRUE(Eventually([&] { return adapter_.connected(); }, seconds(30)));
  EXPECT_EQ(listener.GetLocalAddress().value(), Local(kPort));
  EXPECT_EQ(endpoint.GetLocalAddress().value(), shared);
  End client(adapter_), server(adapter_);
  std::thread other([&] {
    EXPECT_TRUE(listener.GetConnectionRequest(server.connector).ok());
    Request accepted;
    static_cast<void>(server.connector.Accept(server.pair, {}, &accepted));
    EXPECT_TRUE(accepted.GetResult().ok());
  });
  EXPECT_TRUE(ConnectTo(client, kPort).ok());
  other.join();
  End active(adapter_);
  Request connect;
  EXPECT_TRUE(
      active.connector.NdkConnectWithSharedEndpoint(active.pair, endpoint, Local(kOther), {}, &connect)
          .pending());
  EXPECT_EQ(delivered.get_future().get().GetPeerAddress().value(), shared);
  Request closing;
  EXPECT_TRUE(listener.Close(&closing).pending());
  EXPECT_EQ(KindOf(kPort), "listener") << "its connection keeps the port";
  EXPECT_TRUE(server.connector.Close().ok());
  EXPECT_TRUE(closing.GetResult().ok());
  EXPECT_EQ(KindOf(kPort), "");
}

TEST_F(RestartTest, ConnectionAndItsPortReturnTogether) {
  StartBroker("reclaim-grace = \"10min\"");
  Listener listener = Listen(kPort);
  End server(adapter_);
  testing::Process peer = Run({"--peer", daemon_->directory()});
  ASSERT_TRUE(listener.GetConnectionRequest(server.connector).ok());
  Request accepted;
  static_cast<void>(server.connector.Accept(server.pair, {}, &accepted));
  ASSERT_TRUE(accepted.GetResult().ok());
  listener = Listener();
  const auto connected = [&] {
    const Flat rows = daemon_->Admin("ListConnections");
    std::size_t count = 0;
    for (std::size_t i = 0; i < rows.Count("items"); ++i) {
      count += rows["items." + std::to_string(i) + ".state"] == "Connected" ? 1 : 0;
    }
    return count;
  };
  // Waits until the CompleteConnect of the peer is complete, because a pending one would end with the broker.
  ASSERT_TRUE(Eventually([&] { return connected() == 2; }, seconds(30)));
  KillAndStart();
  EXPECT_TRUE(Eventually([&] { return connected() == 2; }, seconds(30))) << daemon_->log();
  EXPECT_EQ(KindOf(kPort), "connector");
}

TEST_F(RestartTest, MissingJournalIsReportedOnceAndServiceContinues) {
  StartBroker("");
  daemon_->Kill();
  const std::string journal = daemon_->directory() + "/journal";
  EXPECT_TRUE(std::filesystem::remove(journal));
  std::filesystem::create_directory(journal);
  ASSERT_TRUE(daemon_->Start());
  ASSERT_TRUE(Eventually([&] { return adapter_.connected(); }, seconds(30)));
  for (std::uint16_t port = 8000; port < 8100; ++port) Listen(port);
  const std::string log = daemon_->log();
  std::size_t warnings = 0;
  for (std::size_t at = log.find("lease journal"); at != log.npos; at = log.find("lease journal", at + 1))
    ++warnings;
  EXPECT_EQ(warnings, 1u) << log;
  // It uses the journal again when it can be written.
  std::filesystem::remove(journal);
  Listener listener = Listen(kPort);
  EXPECT_TRUE(daemon_->SkipTime(minutes(2)).ok());
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_regular_file(journal); }));
  KillAndStart();
  EXPECT_NE(KindOf(kPort), "");
}

}  // namespace
}  // namespace nd::state

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "--attack" && argc > 3) return nd::state::Attack(argv[2], argv[3]);
  if (mode == "--hold" && argc > 3) {
    return nd::state::Hold(argv[2], static_cast<std::uint16_t>(std::stoi(argv[3])));
  }
  if (mode == "--peer") return nd::testing::KeepConnection(argv[2], nd::state::kPort);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
