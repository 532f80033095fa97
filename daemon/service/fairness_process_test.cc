// SPDX-License-Identifier: Apache-2.0
// One user takes as many resources of the broker as possible; another user must be served without delay. See
// service_fixture.h.
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "daemon/service/fairness_attacks.h"
#include "daemon/service/raw_client.h"
#include "daemon/service/service_fixture.h"

namespace nd::service {
namespace {

constexpr uid_t kGreedy = 65534;
constexpr std::uint32_t kGreedyPort = 7000, kHonestPort = 8000;

void BecomeGreedy() {
  if (::getuid() != 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(kGreedy) != 0 || ::setuid(kGreedy) != 0) std::_Exit(100);
}

void Tell(const char* line) {
  std::puts(line);
  std::fflush(stdout);
}

pb::ClientMessage ListOp() {
  pb::ClientMessage message;
  message.mutable_list_adapters();
  return message;
}

}  // namespace

// Connects to its own listener, which receives its requests as events and never accepts them.
int ConnectToMyself(const std::string& directory, int count, int refusals) {
  BecomeGreedy();
  LaneClient me(directory);
  me.Listener(kGreedyPort, true);
  std::vector<pb::ClientMessage> connects;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t connector = me.Connector();
    connects.push_back(me.Connect(connector, me.QueuePair(), kGreedyPort));
  }
  std::thread says([&] {
    for (const pb::ClientMessage& connect : connects) me.lane.SendMessage(connect);
    Tell("ATTACKING");
  });
  for (int refused = 0; refused < refusals;) {
    const pb::ServerMessage heard = me.lane.ReceiveMessage();
    if (heard.kind_case() == pb::ServerMessage::KIND_NOT_SET) return 1;
    refused += heard.completion().status().code() == 0xC0000236 ? 1 : 0;  // CONNECTION_REFUSED
  }
  says.join();
  Tell("REFUSED");
  for (;;) me.lane.ReceiveMessage();
}

int HoldConnectors(const std::string& directory, int count) {
  BecomeGreedy();
  LaneClient me(directory);
  for (int i = 0; i < count; ++i) me.Connector();
  Tell("HOLDS");
  for (;;) ::pause();
}

namespace {

class FairnessTest : public ServiceTest {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ndserviceXXXXXX";
    directory_ = ::mkdtemp(name);
    ::chmod(directory_.c_str(), 0755);
  }
  void End(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  // Returns the duration from Connect to the reply of the peer for `count` connections in turn.
  static std::vector<milliseconds> ConnectTimes(LaneClient& server, std::uint64_t listener,
                                                LaneClient& client, int count) {
    std::vector<milliseconds> times;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t active = client.Connector(), queue_pair = client.QueuePair();
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_TRUE(client.lane.SendMessage(client.Connect(active, queue_pair, kHonestPort)));
      pb::ClientMessage m;
      const std::uint64_t passive = server.Connector();
      m.mutable_get_connection_request()->set_listener(listener);
      m.mutable_get_connection_request()->set_connector(passive);
      EXPECT_EQ(server.Ask(m).status().code(), 0u);
      m.mutable_reject()->set_connector(passive);
      EXPECT_EQ(server.Ask(m).status().code(), 0u);
      EXPECT_EQ(client.lane.ReceiveMessage().completion().status().code(), 0xC0000236u);
      times.push_back(std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin));
    }
    std::sort(times.begin(), times.end());
    return times;
  }
};

// At 256 a second, 3000 unanswered connects take 12 s. A caller queued behind them would wait as long.
TEST_F(FairnessTest, UserWithThousandsOfConnectsDelaysNobodyElse) {
  if (::getuid() != 0) GTEST_SKIP() << "needs two users";
  StartDaemon("[core]\nmax-backlog = 65536\n");
  LaneClient server(directory_), client(directory_);
  const std::uint64_t listener = server.Listener(kHonestPort);
  UniqueFd said;
  const pid_t greedy = Spawn({"--connect-to-myself", directory_, "3000", "1"}, &said);
  ASSERT_EQ(ReadLine(said), "ATTACKING");
  const std::vector<milliseconds> times = ConnectTimes(server, listener, client, 50);
  // The earliest place of the greedy user becomes free after one second.
  EXPECT_LT(times.back(), milliseconds(900));
  const pb::SessionList sessions = Call(&pb::Admin::Stub::ListSessions, All());
  const bool still = std::any_of(sessions.items().begin(), sessions.items().end(),
                                 [](const auto& row) { return row.pending_operations() == 3000; });
  EXPECT_TRUE(still) << "the greedy one's connects must wait all the time";
  End(greedy);
  server.lane.Close();
  client.lane.Close();
}

// One place on the wire, which an attempt that is not answered leaves after 20 ms. The other user has 600
// attempts waiting, so that without turns a later one would wait for 12 s.
TEST_F(FairnessTest, UsersTakeTurnsAtTheWire) {
  if (::getuid() != 0) GTEST_SKIP() << "needs two users";
  constexpr int kConnects = 600;
  StartDaemon(
      "[core]\nmax-backlog = 65536\nmax-handshakes-in-flight = 1\n[timeouts]\nhandshake-pace = \"20ms\"\n");
  LaneClient me(directory_);
  me.Listener(kHonestPort, true);
  const std::uint64_t connector = me.Connector();
  const pb::ClientMessage connect = me.Connect(connector, me.QueuePair(), kHonestPort);
  UniqueFd said;
  const pid_t greedy = Spawn({"--connect-to-myself", directory_, std::to_string(kConnects), "0"}, &said);
  for (std::string line; line != "ATTACKING";) ASSERT_NE(line = ReadLine(said), "");
  ASSERT_TRUE(me.lane.SendMessage(connect));
  ASSERT_EQ(me.lane.ReceiveMessage().kind_case(), pb::ServerMessage::kConnectEvent);
  const pb::ConnectionList connections = Call(&pb::Admin::Stub::ListConnections, All());
  const auto flown = std::count_if(connections.items().begin(), connections.items().end(),
                                   [](const auto& row) { return row.state() == "Incoming"; });
  EXPECT_LT(flown, kConnects / 2) << "the attempts that left before this user's only one";
  End(greedy);
  me.lane.Close();
}

// Every lane has as many requests when the broker continues. With a turn for each lane the one of the honest
// user would mostly be among the last.
TEST_F(FairnessTest, UserWithManyLanesLeavesOthersTheirShare) {
  if (::getuid() != 0) GTEST_SKIP() << "needs two users";
  constexpr int kLanes = 100, kRequests = 192, kRounds = 8;
  StartDaemon("");
  ASSERT_EQ(::seteuid(kGreedy), 0);
  std::vector<std::unique_ptr<LaneClient>> greedy;
  for (int i = 0; i < kLanes; ++i) greedy.push_back(std::make_unique<LaneClient>(directory_));
  ASSERT_EQ(::seteuid(0), 0);
  LaneClient honest(directory_);
  const auto pause = [&] {
    ::kill(daemon_, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(daemon_, &status, WUNTRACED), daemon_);
    ASSERT_TRUE(WIFSTOPPED(status));
  };
  const auto send = [](LaneClient& client) {
    pb::ClientMessage list = ListOp();
    for (int i = 0; i < kRequests; ++i) {
      list.set_op_id(++client.last_op);
      ASSERT_TRUE(client.lane.SendMessage(list, /*wait=*/false));
    }
  };
  const auto receive = [](LaneClient& client) {
    for (int i = 0; i < kRequests; ++i)
      ASSERT_EQ(client.lane.ReceiveMessage().kind_case(), pb::ServerMessage::kCompletion) << i;
  };
  const auto waiting = [&] {  // The requests of the greedy user that the broker has not received, in bytes.
    std::int64_t bytes = 0;
    for (const auto& client : greedy) {
      int own = 0;
      EXPECT_EQ(::ioctl(client->lane.fd(), SIOCOUTQ, &own), 0);
      bytes += own;
    }
    return static_cast<double>(bytes);
  };
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(pause());
    for (const auto& client : greedy) ASSERT_NO_FATAL_FAILURE(send(*client));
    ASSERT_NO_FATAL_FAILURE(send(honest));
    const double all = waiting();
    ::kill(daemon_, SIGCONT);
    ASSERT_NO_FATAL_FAILURE(receive(honest));
    ASSERT_NO_FATAL_FAILURE(pause());
    EXPECT_GT(waiting() / all, 0.5) << "the greedy user's requests behind those of the honest one";
    ::kill(daemon_, SIGCONT);
    for (const auto& client : greedy) ASSERT_NO_FATAL_FAILURE(receive(*client));
  }
}

TEST_F(FairnessTest, ListenerThatNeverAnswersEventsHasABacklog) {
  StartDaemon("[core]\nmax-backlog = 100\n");
  UniqueFd said;
  const pid_t greedy = Spawn({"--connect-to-myself", directory_, "1000", "900"}, &said);
  EXPECT_EQ(ReadLine(said), "ATTACKING");
  EXPECT_EQ(ReadLine(said), "REFUSED");
  const pb::BrokerStatus status = GetStatus();
  const auto full = status.counters().refusals().find("backlog full");
  EXPECT_TRUE(full != status.counters().refusals().end() && full->second == 900u);
  End(greedy);
}

// The objects of an ended session are reclaimed in parts, and other sessions are served in between.
TEST_F(FairnessTest, EndedSessionIsReclaimedInPartsWhileOthersAreServed) {
  StartDaemon("");
  LaneClient honest(directory_);
  bool seen = false;
  for (int attempt = 0; attempt < 5 && !seen; ++attempt) {
    UniqueFd said;
    const pid_t greedy = Spawn({"--hold-connectors", directory_, "20000"}, &said);
    ASSERT_EQ(ReadLine(said), "HOLDS");
    End(greedy);
    for (bool gone = false; !gone;) {
      ASSERT_EQ(honest.Ask(ListOp()).adapters_size(), 1);
      const pb::SessionList sessions = Call(&pb::Admin::Stub::ListSessions, All());
      gone = sessions.items_size() == 1;
      for (const pb::SessionRow& row : sessions.items()) {
        seen |= row.connectors() > 0 && row.connectors() < 20000;
      }
    }
  }
  EXPECT_TRUE(seen) << "20,000 connectors were taken back in one go";
  honest.lane.Close();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;  // The sanitizer keeps freed memory.
#else
constexpr bool kMemoryIsOurs = true;
#endif

// Each remembered list takes about 600 bytes: a thousand of them for each of 64 sessions would be 40 MiB.
TEST_F(FairnessTest, RememberedCompletionsOfAUserAreBoundedInBytes) {
  StartDaemon("");
  const std::uint64_t before = GetStatus().resident_bytes();
  std::vector<std::unique_ptr<LaneClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(std::make_unique<LaneClient>(directory_));
    LaneClient& client = *clients.back();
    for (int round = 0; round < 34; ++round) {
      for (int n = 0; n < 32; ++n) {
        pb::ClientMessage list = ListOp();
        list.set_op_id(++client.last_op);
        ASSERT_TRUE(client.lane.SendMessage(list));
      }
      for (int n = 0; n < 32; ++n) ASSERT_EQ(client.lane.ReceiveMessage().completion().adapters_size(), 1);
    }
  }
  const std::uint64_t after = GetStatus().resident_bytes();
  if (kMemoryIsOurs) {
    EXPECT_LT(after - std::min(before, after), 22u << 20);
  }
  // A repeat of the newest operation still gets the remembered reply.
  LaneClient& last = *clients.back();
  pb::ClientMessage again = ListOp();
  again.set_op_id(last.last_op);
  ASSERT_TRUE(last.lane.SendMessage(again));
  EXPECT_EQ(last.lane.ReceiveMessage().completion().op_id(), last.last_op);
  for (const auto& client : clients) client->lane.Close();
  ASSERT_TRUE(Until([&] { return GetStatus().sessions() == 0; }));
  // The bytes of ended sessions are free: a new session remembers more than its newest operations, and makes
  // no second connector when the first of them is repeated.
  LaneClient next(directory_);
  const std::uint64_t connector = next.Connector(), made_by = next.last_op;
  for (int n = 0; n < 100; ++n) ASSERT_EQ(next.Ask(ListOp()).adapters_size(), 1);
  pb::ClientMessage repeat;
  repeat.set_op_id(made_by);
  repeat.mutable_create_connector()->set_adapter(next.adapter);
  ASSERT_TRUE(next.lane.SendMessage(repeat));
  EXPECT_EQ(next.lane.ReceiveMessage().completion().handle(), connector);
  next.lane.Close();
}

}  // namespace
}  // namespace nd::service
