// SPDX-License-Identifier: Apache-2.0
// Real daemons that are killed and restarted: no port is stolen in between, and the history is kept.
// Attackers and peers are other processes of this program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nd/nd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/state/history_db.h"
#include "tests/testing/daemon.h"
#include "tests/testing/local_end.h"
#include "tests/testing/process.h"

namespace nd::state {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::End;
using testing::Eventually;
using testing::Flat;
using testing::Local;
using testing::OpenAt;

constexpr std::uint16_t kPort = 7000, kOther = 7001;

// The results of an attacker, in a file that both map.
struct Score {
  std::atomic<std::uint64_t> refused;  // Because the port is kept for its holder.
  std::atomic<std::uint64_t> thefts;
  std::atomic<bool> stop;
};

class SharedScore {
 public:
  explicit SharedScore(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    static_cast<void>(::fchmod(fd.get(), 0666));
    if (::ftruncate(fd.get(), sizeof(Score)) == 0) {
      void* at = ::mmap(nullptr, sizeof(Score), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
      if (at != MAP_FAILED) score_ = static_cast<Score*>(at);
    }
  }
  Score* operator->() { return score_; }

 private:
  Score* score_ = nullptr;
};

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

Status ConnectTo(End& end, std::uint16_t port) {
  if (Status status = end.connector.Bind(Local(0)); !status.ok()) return status;
  if (Status status = end.connector.Connect(end.pair, Local(port)); !status.ok()) return status;
  return end.connector.CompleteConnect();
}

// Connects to kPort and waits for its end.
int Peer(const std::string& directory) {
  Result<Adapter> adapter = OpenAt(directory);
  if (!adapter.ok()) return 1;
  End end(*adapter);
  if (!ConnectTo(end, kPort).ok()) return 1;
  for (;;) ::pause();
}

class RestartTest : public ::testing::Test {
 protected:
  void StartBroker(const std::string& broker_section, const std::string& mode = "separate") {
    testing::DaemonOptions options;
    options.sections["broker"] = broker_section;
    // Below the ephemeral range of the host, because any program could be given such a port while the broker
    // is away.
    options.adapters = {"mode = \"" + mode + "\"\naddresses = [\"127.0.0.1\"]\ntcp-port = " +
                        std::to_string(25000 + ::getpid() % 7000)};
    daemon_ = std::make_unique<testing::Daemon>(options);
    ASSERT_TRUE(daemon_->Start()) << daemon_->log();
    adapter_ = Open();
  }
  void TearDown() override {
    for (auto& [score, process] : attackers_) {
      score->stop = true;
      EXPECT_TRUE(process.Wait(seconds(10)).has_value()) << "an attacker hangs";
    }
    std::filesystem::remove_all(scores_);
  }
  Adapter Open() {
    OpenOptions options;
    options.broker = daemon_->directory();
    Result<Adapter> adapter = Adapter::Open(options);
    EXPECT_TRUE(adapter.ok()) << adapter.status().ToString();
    return adapter.ok() ? *adapter : Adapter();
  }
  testing::Process Run(std::vector<std::string> arguments, std::optional<uid_t> uid = {}) {
    testing::SpawnOptions spawn;
    spawn.arguments = {testing::BinaryDirectory() + "/state_restart_test"};
    spawn.arguments.insert(spawn.arguments.end(), arguments.begin(), arguments.end());
    spawn.uid = uid;
    return testing::Process::Spawn(spawn);
  }
  // Starts one attacker of this user and one of another user.
  void StartAttackers() {
    scores_ = testing::MakeTempDirectory("ndscore-");
    ::chmod(scores_.c_str(), 0755);
    std::vector<std::optional<uid_t>> users = {std::nullopt};
    if (::geteuid() == 0) {
      users.emplace_back(65534);
    } else {
      std::printf("SKIPPED LOUDLY: no attacker of another user without root\n");
    }
    for (std::size_t i = 0; i < users.size(); ++i) {
      const std::string path = scores_ + "/" + std::to_string(i);
      SharedScore score(path);
      attackers_.emplace_back(score, Run({"--attack", daemon_->directory(), path}, users[i]));
    }
  }
  std::uint64_t Thefts() {
    std::uint64_t thefts = 0;
    for (auto& [score, process] : attackers_) thefts += score->thefts;
    return thefts;
  }
  Listener Listen(std::uint16_t port) {
    Listener listener = adapter_.CreateListener().value();
    const Status bound = listener.Bind(Local(port));
    EXPECT_TRUE(bound.ok()) << bound.ToString();
    EXPECT_TRUE(listener.Listen().ok());
    return listener;
  }
  void KillAndStart() {
    daemon_->Kill();
    ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  }
  // The owner of a listener may have bound its port and not listen yet: only then is it where a test wants
  // it.
  bool Listens(std::uint16_t port) {
    const Flat listeners = daemon_->Admin("ListListeners");
    for (std::size_t i = 0; i < listeners.Count("items"); ++i) {
      const std::string row = "items." + std::to_string(i);
      if (listeners[row + ".local.port"] == std::to_string(port) && listeners[row + ".state"] == "listening")
        return true;
    }
    return false;
  }
  // The kind in the row of ListPorts for this port; "" when there is none.
  std::string KindOf(std::uint16_t port) {
    const Flat ports = daemon_->Admin("ListPorts", "id: \"" + Local(port).ToString() + "\"");
    return ports.Count("items") == 0 ? "" : ports["items.0.kind"];
  }

  std::unique_ptr<testing::Daemon> daemon_;
  Adapter adapter_;
  std::string scores_;
  std::vector<std::pair<SharedScore, testing::Process>> attackers_;
};

TEST_F(RestartTest, NoPortIsStolenWhileTheBrokerIsAway) {
  StartBroker("reclaim-grace = \"10min\"");
  testing::Process owner = Run({"--hold", daemon_->directory(), std::to_string(kPort)});
  ASSERT_TRUE(Eventually([&] { return Listens(kPort); }));
  StartAttackers();
  std::uint64_t attempts = 0;
  for (int round = 0; round < 3; ++round) {  // More rounds would be a crash loop, which has rules of its own.
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

// Whoever can make the broker end at will gains nothing by it: as many ends in as short a time as it likes.
TEST_F(RestartTest, NobodyStealsAPortAfterManyUnexpectedEnds) {
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

// Any program, by a plain socket.
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
  // A program that took the port before the broker returned has it.
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
  owner.Pause();  // Otherwise it may return first.
  KillAndStart();
  EXPECT_TRUE(Eventually([&] { return Thefts() > 0; }, seconds(60)));
}

TEST_F(RestartTest, OrderlyAndRepeatedRestartsKeepThePort) {
  StartBroker("reclaim-grace = \"10min\"");
  testing::Process holder = Run({"--hold", daemon_->directory(), std::to_string(kOther)});
  ASSERT_TRUE(Eventually([&] { return Listens(kOther); }));
  holder.Pause();  // It lives but does not return.
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

TEST_F(RestartTest, HistoryHasTheEndOfEachConnection) {
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

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "--attack" && argc > 3) return nd::state::Attack(argv[2], argv[3]);
  if (mode == "--hold" && argc > 3) {
    return nd::state::Hold(argv[2], static_cast<std::uint16_t>(std::stoi(argv[3])));
  }
  if (mode == "--peer") return nd::state::Peer(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
