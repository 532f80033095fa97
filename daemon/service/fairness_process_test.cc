// SPDX-License-Identifier: Apache-2.0
// One user takes as many resources of the broker as possible; another user must be served without delay. See
// service_fixture.h.
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
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

volatile sig_atomic_t begun = 0, over = 0;

// Sends operations on lanes without a pause, with several under way on each lane.
class FloodOfLanes {
 public:
  FloodOfLanes(const std::string& directory, int lanes) {
    for (int i = 0; i < lanes; ++i) lanes_.push_back({std::make_unique<LaneClient>(directory), 0});
  }
  // Sends and receives on each lane. Waits for an answer when no lane can do either.
  void Pass() {
    bool busy = false;
    for (Lane& lane : lanes_) busy |= Pass(lane);
    if (busy) return;
    std::vector<pollfd> all;
    for (const Lane& lane : lanes_) all.push_back({lane.client->lane.fd(), POLLIN, 0});
    ::poll(all.data(), all.size(), 100);
  }
  std::uint64_t answers() const { return answers_; }
  void Close() {
    for (Lane& lane : lanes_) lane.client->lane.Close();
  }

 private:
  struct Lane {
    std::unique_ptr<LaneClient> client;
    int on_their_way;
  };
  bool Pass(Lane& lane) {
    constexpr int kOnTheirWay = 64;
    bool busy = false;
    std::array<char, provider::kMaxServerDatagram> buffer;
    for (ssize_t n; (n = ::recv(lane.client->lane.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0;) {
      std::uint32_t length = 0;
      for (std::size_t at = sizeof(provider::MessageRecord);
           at + sizeof length <= static_cast<std::size_t>(n); at += sizeof length + length) {
        std::memcpy(&length, buffer.data() + at, sizeof length);
        --lane.on_their_way;
        ++answers_;
      }
      busy = true;
    }
    // Refills in batches: a client that sends one operation at a time would wait most of the time.
    if (lane.on_their_way > kOnTheirWay / 2) return busy;
    pb::ClientMessage list;
    list.mutable_list_adapters();
    while (lane.on_their_way < kOnTheirWay) {
      list.set_op_id(++lane.client->last_op);
      if (!lane.client->lane.SendMessage(list, /*wait=*/false)) break;
      ++lane.on_their_way;
      busy = true;
    }
    return busy;
  }

  std::vector<Lane> lanes_;
  std::uint64_t answers_ = 0;
};

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

int FloodLanes(const std::string& directory, int lanes) {
  BecomeGreedy();
  ::signal(SIGUSR1, [](int) { begun = 1; });
  ::signal(SIGTERM, [](int) { over = 1; });
  FloodOfLanes flood(directory, lanes);
  Tell("FLOODING");
  std::uint64_t before = 0;
  while (over == 0) {
    flood.Pass();
    if (begun == 1) {
      before = flood.answers();
      begun = 2;
    }
  }
  Tell(std::to_string(flood.answers() - before).c_str());
  return 0;
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

// With a turn for each lane the honest user would have a hundredth of the answers.
TEST_F(FairnessTest, UserWithManyLanesLeavesOthersTheirShare) {
  if (::getuid() != 0) GTEST_SKIP() << "needs two users";
  StartDaemon("");
  UniqueFd said;
  const pid_t greedy = Spawn({"--flood-lanes", directory_, "100"}, &said);
  ASSERT_EQ(ReadLine(said), "FLOODING");
  FloodOfLanes honest(directory_, 1);
  const auto flood_for = [&](milliseconds duration) {
    const std::uint64_t before = honest.answers();
    const auto end = std::chrono::steady_clock::now() + duration;
    while (std::chrono::steady_clock::now() < end) honest.Pass();
    return honest.answers() - before;
  };
  flood_for(milliseconds(300));
  ::kill(greedy, SIGUSR1);
  const auto ours = static_cast<double>(flood_for(milliseconds(2000)));
  ::kill(greedy, SIGTERM);
  const double theirs = std::stod(ReadLine(said));
  ::waitpid(greedy, nullptr, 0);
  const double share = ours / (ours + theirs);
  std::printf("%.0f answers beside %.0f of a hundred lanes: %.0f %%\n", ours, theirs, 100 * share);
  EXPECT_GT(theirs, 100);
  EXPECT_GE(share, 0.05);
  honest.Close();
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
