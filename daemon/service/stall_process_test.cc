// SPDX-License-Identifier: Apache-2.0
// Clients that try to block threads of a real broker or to exhaust its descriptors; see service_fixture.h.
// Threads of the broker are stopped and released by ptrace, so that a race always ends in favour of the
// attacker.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <thread>

#include "daemon/service/client_lane.h"
#include "daemon/service/raw_client.h"
#include "daemon/service/service_fixture.h"
#include "tests/testing/stopped_thread.h"

namespace nd::service {
namespace {

using std::chrono::steady_clock;
using testing::StoppedThread;

constexpr std::uint32_t kInsufficientResources = 0xC000009A;

class StallTest : public ServiceTest {
 protected:
  void SetLimit(rlim_t descriptors) {
    rlimit limit{};
    ASSERT_EQ(::prlimit(daemon_, RLIMIT_NOFILE, nullptr, &limit), 0);
    limit.rlim_cur = std::min(descriptors, limit.rlim_max);
    ASSERT_EQ(::prlimit(daemon_, RLIMIT_NOFILE, &limit, nullptr), 0);
  }
  // Fills the descriptor table of the broker during its lifetime.
  struct FullTable {
    explicit FullTable(StallTest& test) : test_(test) {
      rlimit limit{};
      ::prlimit(test.daemon_, RLIMIT_NOFILE, nullptr, &limit);
      before_ = limit.rlim_cur;
      test.SetLimit(3);
    }
    ~FullTable() { test_.SetLimit(before_); }
    StallTest& test_;
    rlim_t before_ = 0;
  };

  bool Logged(const std::string& text) {
    const pb::LogReply log = Call(&pb::Admin::Stub::GetLog, pb::LogRequest());
    return std::any_of(log.lines().begin(), log.lines().end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }

  // A client that listens or connects.
  struct Party : RawClient {
    explicit Party(const std::string& directory) : RawClient(directory) {}
    std::uint64_t PairWithPage() {
      const std::uint64_t pair = QueuePair();
      if (!std::exchange(has_page, true)) lane.Ack(lane.Receive().id);
      return pair;
    }
    bool has_page = false;
  };
  std::uint64_t Listen(Party& server, std::uint32_t port) {
    const std::uint64_t listener = server.Listener();
    pb::ClientMessage listen;
    listen.mutable_listen()->set_listener(listener);
    listen.mutable_listen()->set_backlog(16);
    SetLoopback(port, listen.mutable_listen()->mutable_local());
    EXPECT_EQ(server.stream.Ask(listen).status().code(), 0u);
    return listener;
  }
  // Both sides up to CompleteConnect, which `complete` runs, and the transports of the two.
  struct Connected {
    pb::Completion active, passive;
    UniqueFd mine, theirs;
  };
  template <typename Complete>
  Connected Connect(Party& server, std::uint64_t listener, Party& client, std::uint32_t port,
                    Complete complete) {
    const std::uint64_t passive = server.Connector(), server_qp = server.PairWithPage();
    const std::uint64_t active = client.Connector(), client_qp = client.PairWithPage();
    pb::ClientMessage connect;
    connect.set_op_id(++last_op_);
    connect.mutable_connect()->set_connector(active);
    connect.mutable_connect()->set_queue_pair(client_qp);
    SetLoopback(port, connect.mutable_connect()->mutable_remote());
    SetLoopback(0, connect.mutable_connect()->mutable_source());
    client.stream.Write(connect);
    pb::ClientMessage get;
    get.mutable_get_connection_request()->set_listener(listener);
    get.mutable_get_connection_request()->set_connector(passive);
    EXPECT_EQ(server.stream.Ask(get).status().code(), 0u);
    pb::ClientMessage accept;
    accept.set_op_id(++last_op_);
    accept.mutable_accept()->set_connector(passive);
    accept.mutable_accept()->set_queue_pair(server_qp);
    server.stream.Write(accept);
    const pb::Completion connected = client.stream.Read().completion();
    EXPECT_EQ(connected.status().code(), 0u) << connected.status().message();
    pb::ClientMessage message;
    message.mutable_complete_connect()->set_connector(active);
    Connected out;
    out.active = complete(message);
    out.passive = server.stream.Read().completion();
    if (out.active.hand_off() == 0) return out;
    for (auto [party, fd] : {std::pair(&client, &out.mine), std::pair(&server, &out.theirs)}) {
      RawLane::Record record = party->lane.Receive();
      party->lane.Ack(record.id);
      if (!record.fds.empty()) *fd = std::move(record.fds[0]);
    }
    return out;
  }
  Connected Connect(Party& server, std::uint64_t listener, Party& client, std::uint32_t port) {
    return Connect(server, listener, client, port,
                   [&](const pb::ClientMessage& message) { return client.stream.Ask(message); });
  }

  std::uint64_t last_op_ = 100'000;
};

// The socket lingers for a minute toward a peer that does not read, and the client closes its copy first: the
// close of the broker is the last one and would wait. Meanwhile the broker must open sessions, answer its
// administrator, and end on request.
TEST_F(StallTest, LingeringSocketsDelayNobody) {
  ASSERT_EQ(StopDaemon(), 0);
  StartDaemon("", "--serve-tcp");
  std::optional<Party> server(std::in_place, directory_), client(std::in_place, directory_);
  const std::uint64_t listener = Listen(*server, 7000);
  std::vector<UniqueFd> unread;
  {
    const StoppedThread reaper(daemon_, "nd-reaper");
    ASSERT_TRUE(reaper.found());
    if (!reaper.stopped()) GTEST_SKIP() << "this environment does not allow ptrace";
    for (int i = 0; i < 3; ++i) {
      Connected pair = Connect(*server, listener, *client, 7000);
      ASSERT_TRUE(pair.mine && pair.theirs) << pair.active.status().message();
      const linger minute{1, 60};
      ASSERT_EQ(::setsockopt(pair.mine.get(), SOL_SOCKET, SO_LINGER, &minute, sizeof minute), 0);
      static std::array<char, 65536> bytes{};
      while (::send(pair.mine.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
      }
      unread.push_back(std::move(pair.theirs));
    }
  }
  const auto start = steady_clock::now();
  {
    // On the lane, as the library does: the first message goes through the thread that reads /proc.
    RawLane lane(directory_);
    const timeval patience{5, 0};
    ASSERT_EQ(::setsockopt(lane.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    pb::ClientMessage hello = HelloMessage(lane.Token());
    hello.set_op_id(1);
    ASSERT_TRUE(lane.SendMessage(hello));
    EXPECT_EQ(lane.ReceiveMessage().completion().version(), 1u) << "a new session opens";
  }
  EXPECT_GE(GetStatus().connections(), 6u);
  EXPECT_NE(Get("/livez").find(" 200 "), std::string::npos);
  EXPECT_LT(steady_clock::now() - start, seconds(5));
  EXPECT_TRUE(
      Until([&] { return Get("/metrics").find("ndbroker_reaper_closed_total 6") != std::string::npos; }));
  const auto stopping = steady_clock::now();
  EXPECT_EQ(StopDaemon(), 0);
  EXPECT_LT(steady_clock::now() - stopping, seconds(5));
}

// /livez checks every thread on which others depend, and names those that do not answer.
TEST_F(StallTest, LivezNamesTheThreadsThatDoNotAnswer) {
  EXPECT_NE(Get("/livez").find(" 200 "), std::string::npos);
  {
    std::vector<std::unique_ptr<StoppedThread>> stopped;
    for (const char* name : {"nd-loop", "nd-hello", "nd-snapshots", "nd-pages"}) {
      stopped.push_back(std::make_unique<StoppedThread>(daemon_, name));
      ASSERT_TRUE(stopped.back()->found()) << name;
      if (!stopped.back()->stopped()) GTEST_SKIP() << "this environment does not allow ptrace";
    }
    std::string answer;
    EXPECT_TRUE(Until([&] {
      answer = Get("/livez");
      return answer.find("do not answer: hello, loop, snapshots, pages.") != std::string::npos;
    })) << answer;
    EXPECT_NE(answer.find(" 503 "), std::string::npos) << answer;
  }
  EXPECT_TRUE(Until([&] { return Get("/livez").find(" 200 ") != std::string::npos; }));
  EXPECT_TRUE(Logged("thread stuck"));
}

TEST_F(StallTest, FullDescriptorTableFailsOnlyTheOperation) {
  Party server(directory_), client(directory_);
  const std::uint64_t listener = Listen(server, 7000);
  {
    const FullTable full(*this);
    pb::ClientMessage create;
    create.mutable_create_queue_pair()->set_adapter(client.adapter);
    create.mutable_create_queue_pair()->set_receive_queue_depth(1);
    create.mutable_create_queue_pair()->set_initiator_queue_depth(1);
    const pb::Completion refused = client.stream.Ask(create);
    EXPECT_EQ(refused.status().code(), kInsufficientResources) << refused.status().message();
  }
  const Connected failed = Connect(server, listener, client, 7000, [&](const pb::ClientMessage& message) {
    const FullTable full(*this);
    return client.stream.Ask(message);
  });
  EXPECT_EQ(failed.active.status().code(), kInsufficientResources) << failed.active.status().message();
  EXPECT_EQ(failed.passive.status().code(), kInsufficientResources) << failed.passive.status().message();
  EXPECT_EQ(GetStatus().sessions(), 2u);
  EXPECT_EQ(GetStatus().listeners(), 1u);
  EXPECT_TRUE(Connect(server, listener, client, 7000).mine) << "with the same listener, port and sessions";
}

TEST_F(StallTest, NewClientsAreServedAfterTheDescriptorTableWasFull) {
  EXPECT_EQ(GetStatus().sessions(), 0u);  // The administrator has connected before the table is full.
  {
    const FullTable full(*this);
    const RawLane early(directory_);
    EXPECT_TRUE(Until([&] { return Logged("accept failed: lane.sock"); }));
  }
  RawLane later(directory_);
  pollfd wait{later.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, 10'000), 1) << "nobody accepts it";
  EXPECT_NE(later.Token(), "");
}

// While the broker stands still, clients hang up, new ones connect, and the process of the first ones ends.
// The new sessions get the descriptor numbers of the old ones before the broker sees the end of that process.
TEST_F(StallTest, EndOfAProcessDoesNotEndSessionsThatReuseItsDescriptorNumbers) {
  constexpr int kClients = 60;
  UniqueFd said;
  const pid_t process = Spawn({"--hang-up", directory_, std::to_string(kClients)}, &said);
  ASSERT_EQ(ReadLine(said), "OPEN");
  ::kill(daemon_, SIGSTOP);
  ::kill(process, SIGUSR1);
  const std::string closed = ReadLine(said);
  std::vector<std::unique_ptr<RawLane>> heirs;
  for (int i = 0; i < kClients; ++i) heirs.push_back(std::make_unique<RawLane>(directory_));
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
  ::kill(daemon_, SIGCONT);
  ASSERT_EQ(closed, "CLOSED");
  int served = 0;
  for (const auto& heir : heirs) {
    pb::ClientMessage hello = HelloMessage(heir->Token());
    hello.set_op_id(1);
    served += heir->SendMessage(hello) && heir->ReceiveMessage().completion().version() == 1u ? 1 : 0;
  }
  EXPECT_EQ(served, kClients);
}

TEST_F(StallTest, ClientStoppedInAHandOverKeepsItsSession) {
  UniqueFd output;
  const pid_t client = Spawn({"--stopped", directory_}, &output);
  int status = 0;
  ASSERT_EQ(::waitpid(client, &status, WUNTRACED), client);
  ASSERT_TRUE(WIFSTOPPED(status));
  ASSERT_TRUE(
      Until([&] { return Get("/metrics").find("ndbroker_descriptors_in_flight 1\n") != std::string::npos; }));
  std::this_thread::sleep_for(5 * kAckTimeout / 2);  // The acknowledgement is late by two time-outs.
  EXPECT_EQ(GetStatus().sessions(), 1u);
  ::kill(client, SIGCONT);
  EXPECT_EQ(ReadLine(output), "SERVED");
  ::waitpid(client, &status, 0);
}

// With 256 descriptors, 64 may be in flight, eight of them for one user.
TEST_F(StallTest, ClientsThatReceiveNothingLoseTheirSessionsWhenRoomIsShort) {
  ASSERT_EQ(StopDaemon(), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  StartDaemon("");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 11; ++i) {
    silent.push_back(std::make_unique<RawClient>(directory_));
    silent.back()->QueuePair();  // It receives a page that it does not acknowledge.
  }
  // At least three sessions have to end; more when the machine stops for a second.
  EXPECT_TRUE(Until([&] { return GetStatus().sessions() <= 8; }));
  EXPECT_TRUE(Logged("it did not acknowledge a hand-over within a second"));
  Party honest(directory_);
  EXPECT_NE(honest.PairWithPage(), 0u);
}

}  // namespace

// Runs in a child of the test: opens sessions, closes them at SIGUSR1, and lives on.
int HangUp(const std::string& directory, int clients) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::vector<std::unique_ptr<LaneClient>> open;
  for (int i = 0; i < clients; ++i) open.push_back(std::make_unique<LaneClient>(directory));
  std::puts("OPEN");
  std::fflush(stdout);
  int number = 0;
  sigwait(&signals, &number);
  open.clear();
  std::puts("CLOSED");
  std::fflush(stdout);
  for (;;) ::pause();
}

// Runs in a child of the test: requests an object that comes with a descriptor, and stops before it receives
// it.
int StoppedInAHandOver(const std::string& directory) {
  RawClient client(directory);
  pb::ClientMessage create;
  create.set_op_id(7);
  create.mutable_create_queue_pair()->set_adapter(client.adapter);
  create.mutable_create_queue_pair()->set_receive_queue_depth(1);
  create.mutable_create_queue_pair()->set_initiator_queue_depth(1);
  client.stream.Write(create);
  ::raise(SIGSTOP);
  client.lane.Ack(client.lane.Receive().id);
  const bool created = client.stream.Read().completion().op_id() == 7;
  pb::ClientMessage list;
  list.mutable_list_adapters();
  const bool served = client.stream.Ask(list).adapters_size() == 1;
  std::printf("%s\n", created && served ? "SERVED" : "LOST");
  std::fflush(stdout);
  return 0;
}

}  // namespace nd::service
