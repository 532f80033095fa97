// SPDX-License-Identifier: Apache-2.0
// The library, the real daemon and the soft provider together: the examples as pairs of processes, and
// connections when the broker or a peer dies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nd/nd.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace nd {
namespace {

// A child process; the test can wait for its first line of output.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    int pipe_fds[2];
    EXPECT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0) << arguments[0];
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    output_ = pipe_fds[0];
  }
  ~Process() {
    if (pid_ > 0) Kill(SIGKILL);
    close(output_);
  }

  std::string Line() {
    std::string line;
    for (char c; read(output_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  int Wait() {
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void Signal(int signal) { kill(pid_, signal); }
  int Kill(int signal) {
    Signal(signal);
    return Wait();
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// Below the ephemeral range, because a restarted broker needs the port again.
std::uint16_t FreePort() {
  for (int attempt = 0; attempt < 6000; ++attempt) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto port = static_cast<std::uint16_t>(26000 + (getpid() + attempt) % 6000);
    address.sin_port = htons(port);
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (free) return port;
  }
  ADD_FAILURE() << "no free port";
  return 0;
}

const Address kServer = Address::Parse("127.0.0.1:7000").value();

// One end of a connection with its objects.
struct End {
  explicit End(Adapter& adapter)
      : queue(adapter.CreateCompletionQueue(64).value()),
        pair(adapter.CreateQueuePair({.receive_cq = &queue, .initiator_cq = &queue}).value()),
        buffer(adapter.AllocateBuffer(4096).value()),
        region(adapter.Register(buffer, kAllowRemoteRead | kAllowRemoteWrite).value()),
        connector(adapter.CreateConnector().value()) {}
  std::array<Sge, 1> Part(std::size_t offset, std::size_t length) {
    return {region.Slice(buffer.data() + offset, length)};
  }
  StatusCode Next() {
    auto completion = queue.Next(std::chrono::seconds(20));
    return completion.ok() ? completion->status : completion.code();
  }
  CompletionQueue queue;
  QueuePair pair;
  Buffer buffer;
  MemoryRegion region;
  Connector connector;
};

class EndToEnd : public ::testing::Test {
 protected:
  EndToEnd() {
    char name[] = "/tmp/nd-e2e-XXXXXX";
    directory_ = mkdtemp(name);
    setenv("NDBROKER_DIR", directory_.c_str(), 1);
    Start();
  }
  ~EndToEnd() override {
    broker_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Start() {
    broker_ = std::make_unique<Process>(std::vector<std::string>{NDBROKERD, "--dir", directory_,
                                                                 "--adapter-address", "127.0.0.1",
                                                                 "--tcp-port", std::to_string(port_)});
    ASSERT_EQ(broker_->Line().rfind("READY", 0), 0u);
  }

  // Connects `client` of one session to `server` of another.
  static void Establish(Adapter& adapter, End& client, Adapter& listening, End& server) {
    EstablishAt(kServer, adapter, client, listening, server);
  }
  static void EstablishAt(const Address& at, Adapter& adapter, End& client, Adapter& listening, End& server) {
    Listener listener = listening.CreateListener().value();
    ASSERT_TRUE(listener.Bind(at).ok());
    ASSERT_TRUE(listener.Listen().ok());
    ASSERT_TRUE(client.connector.Bind(adapter.ResolveAddress(at).value()).ok());
    Request connect, accept;
    ASSERT_TRUE(
        client.connector.Connect(client.pair, at, {.private_data = AsPrivateData("hi")}, &connect).pending());
    ASSERT_TRUE(listener.GetConnectionRequest(server.connector).ok());
    ASSERT_EQ(server.connector.GetPrivateData().value().size(), 2u);
    ASSERT_TRUE(server.connector.Accept(server.pair, {}, &accept).pending());
    ASSERT_TRUE(connect.GetResult().ok());
    ASSERT_TRUE(client.connector.CompleteConnect().ok());
    ASSERT_TRUE(accept.GetResult().ok());
  }

  static void Send(End& from, End& to, const std::string& text) {
    ASSERT_TRUE(to.pair.Receive(nullptr, to.Part(0, 64)).ok());
    std::memcpy(from.buffer.data(), text.data(), text.size());
    ASSERT_TRUE(from.pair.Send(nullptr, from.Part(0, text.size())).ok());
    ASSERT_EQ(to.Next(), StatusCode::kSuccess);
    ASSERT_EQ(from.Next(), StatusCode::kSuccess);
    ASSERT_EQ(std::memcmp(to.buffer.data(), text.data(), text.size()), 0);
  }

  std::string directory_;
  const std::uint16_t port_ = FreePort();
  std::unique_ptr<Process> broker_;
};

// A broker that does not run takes nothing and answers nothing.
TEST_F(EndToEnd, ObjectsAreMadeWhileTheBrokerDoesNotRun) {
  Adapter adapter = Adapter::Open().value(), listening = Adapter::Open().value();
  End server(listening), first(adapter);  // After its first queue pair a session has spares.
  broker_->Signal(SIGSTOP);
  auto ended = std::async(std::launch::async, [this] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    broker_->Signal(SIGCONT);
  });
  const auto began = std::chrono::steady_clock::now();
  End second(adapter);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
  ended.get();
  Establish(adapter, second, listening, server);
  Send(second, server, "made ahead");
}

class Examples : public EndToEnd, public ::testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(Examples, MoveTheirDataBetweenTwoProcesses) {
  const auto arguments = [](const char* role) {
    std::vector<std::string> all{GetParam()[0], role, "127.0.0.1:7000"};
    all.insert(all.end(), GetParam().begin() + 1, GetParam().end());
    return all;
  };
  Process server(arguments("server"));
  ASSERT_EQ(server.Line(), "waiting at 127.0.0.1:7000");
  EXPECT_EQ(Process(arguments("client")).Wait(), 0);
  EXPECT_EQ(server.Wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Examples,
                         ::testing::Values(std::vector<std::string>{EXAMPLE_PING_PONG},
                                           std::vector<std::string>{EXAMPLE_REMOTE_MEMORY},
                                           std::vector<std::string>{EXAMPLE_ECHO_SERVER, "64"},
                                           std::vector<std::string>{EXAMPLE_SHARED_ENDPOINT, "16"}));

TEST_F(EndToEnd, ExamplesFailWithoutABroker) {
  broker_.reset();
  EXPECT_EQ(Process({EXAMPLE_PING_PONG, "client", "127.0.0.1:7000"}).Wait(), 1);
  EXPECT_EQ(Process({EXAMPLE_PING_PONG, "nonsense"}).Wait(), 2);
}

TEST_F(EndToEnd, OneSidedAccessAndGoodbye) {
  Adapter adapter = Adapter::Open().value(), other = Adapter::Open().value();
  End client(adapter), server(other);
  Establish(adapter, client, other, server);
  std::memset(client.buffer.data(), 0x5A, 1000);
  const auto remote = reinterpret_cast<std::uint64_t>(server.buffer.data());
  ASSERT_TRUE(
      client.pair.Write(nullptr, client.Part(0, 1000), remote + 96, server.region.remote_token()).ok());
  EXPECT_EQ(client.Next(), StatusCode::kSuccess);
  ASSERT_TRUE(
      client.pair.Read(nullptr, client.Part(2000, 1000), remote + 96, server.region.remote_token()).ok());
  EXPECT_EQ(client.Next(), StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(client.buffer.data(), client.buffer.data() + 2000, 1000), 0);

  ASSERT_TRUE(server.pair.Receive(nullptr, server.Part(0, 64)).ok());
  Request notify;
  ASSERT_TRUE(server.connector.NotifyDisconnect(&notify).pending());
  EXPECT_TRUE(client.connector.Disconnect().ok());
  EXPECT_TRUE(notify.GetResult().ok());
  EXPECT_EQ(server.connector.disconnect_reason(), DisconnectReason::kPeerDisconnected);
  EXPECT_TRUE(server.connector.Disconnect().ok());
  Completion canceled;
  ASSERT_EQ(server.queue.Poll({&canceled, 1}), 1u);  // Flushed before Disconnect returned.
  EXPECT_EQ(canceled.status, StatusCode::kCanceled);
  EXPECT_EQ(client.pair.Send(nullptr, client.Part(0, 8)), StatusCode::kConnectionInvalid);
  EXPECT_EQ(server.pair.Send(nullptr, server.Part(0, 8)), StatusCode::kConnectionInvalid);
}

TEST_F(EndToEnd, AfterThePeersDisconnectEveryAnswerIsInline) {
  Adapter adapter = Adapter::Open().value(), other = Adapter::Open().value();
  End client(adapter), server(other);
  Establish(adapter, client, other, server);
  ASSERT_TRUE(server.pair.Receive(nullptr, server.Part(0, 64)).ok());
  Request notify, request;
  ASSERT_TRUE(server.connector.NotifyDisconnect(&notify).pending());
  EXPECT_TRUE(client.connector.Disconnect().ok());
  EXPECT_TRUE(notify.GetResult().ok());
  EXPECT_EQ(server.connector.NotifyDisconnect(&request), StatusCode::kSuccess);
  EXPECT_EQ(server.connector.Disconnect(&request), StatusCode::kSuccess);
  Completion canceled;
  ASSERT_EQ(server.queue.Poll({&canceled, 1}), 1u);
  EXPECT_EQ(canceled.status, StatusCode::kCanceled);
  EXPECT_EQ(request.GetResult(false), StatusCode::kConnectionInvalid);  // It carried no operation.
  // The connection has ended at the broker too.
  EXPECT_EQ(server.connector.Disconnect(), StatusCode::kConnectionInvalid);
  EXPECT_EQ(server.connector.NotifyDisconnect(), StatusCode::kConnectionDisconnected);
  EXPECT_EQ(server.connector.GetPeerAddress().code(), StatusCode::kConnectionInvalid);
}

TEST_F(EndToEnd, EveryDisconnectIsAnswered) {
  Adapter adapter = Adapter::Open().value(), other = Adapter::Open().value();
  // The ways in which the passive side reacts to the disconnect.
  const std::function<void(End&)> ends[] = {
      [](End& server) { EXPECT_TRUE(server.connector.Disconnect().ok()); },
      [](End& server) {
        EXPECT_TRUE(server.connector.Disconnect().ok());
        server.pair = QueuePair();
        server.connector = Connector();
      },
      [](End& server) { EXPECT_TRUE(server.pair.Close().ok()); },
      [](End& server) { server.pair = QueuePair(); },
      [](End& server) { EXPECT_TRUE(server.connector.Close().ok()); },
      [](End& server) {
        server.connector = Connector();
        server.pair = QueuePair();
      },
  };
  for (int round = 0; round < 10; ++round) {
    for (const auto& end : ends) {
      End client(adapter), server(other);
      Establish(adapter, client, other, server);
      Request notify, disconnect;
      ASSERT_TRUE(server.connector.NotifyDisconnect(&notify).pending());
      ASSERT_TRUE(client.connector.Disconnect(&disconnect).pending());
      ASSERT_TRUE(notify.GetResult().ok());
      end(server);
      ASSERT_EQ(disconnect.GetResult(), StatusCode::kSuccess);
    }
  }
}

TEST_F(EndToEnd, ConnectionsSurviveTheBrokerAndReturnToTheNextOne) {
  Adapter adapter = Adapter::Open().value(), other = Adapter::Open().value();
  End client(adapter), server(other);
  Establish(adapter, client, other, server);
  std::mutex mutex;
  std::condition_variable changed;
  int lost = 0, back = 0;
  const auto watch = [&](bool connected) {
    std::lock_guard lock(mutex);
    ++(connected ? back : lost);
    changed.notify_all();
  };
  adapter.SetSessionCallback(watch);
  other.SetSessionCallback(watch);
  const auto await = [&](const int& counter) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(30), [&] { return counter == 2; });
  };
  Request notify;
  ASSERT_TRUE(server.connector.NotifyDisconnect(&notify).pending());
  broker_->Kill(SIGKILL);
  ASSERT_TRUE(await(lost));
  EXPECT_EQ(notify.GetResult(), StatusCode::kDeviceRemoved);
  EXPECT_EQ(adapter.CreateConnector().code(), StatusCode::kDeviceRemoved);
  Send(client, server, "without a broker");
  Start();
  ASSERT_TRUE(await(back));
  Send(server, client, "with the next one");
  EXPECT_EQ(client.connector.GetPeerAddress().value(), kServer);  // The new broker knows both ends.
  EXPECT_EQ(server.connector.GetPeerAddress().value(), client.connector.GetLocalAddress().value());
  ASSERT_TRUE(server.connector.NotifyDisconnect(&notify).pending());
  EXPECT_TRUE(client.connector.Disconnect().ok());
  EXPECT_TRUE(notify.GetResult().ok());
}

// The limit of open files of this process, at the number of those that it has.
class NoRoomForDescriptors {
 public:
  NoRoomForDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDERR_FILENO);
    close(next);
    const rlimit full{static_cast<rlim_t>(next), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  }
  ~NoRoomForDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(EndToEnd, AFullTableOfDescriptorsEndsNeitherASessionNorAConnection) {
  Adapter adapter = Adapter::Open().value(), other = Adapter::Open().value();
  End client(adapter), server(other), second(adapter), third(adapter), third_server(other);
  std::atomic<int> lost{0};
  for (Adapter* each : {&adapter, &other}) {
    each->SetSessionCallback([&lost](bool connected) { lost += connected ? 0 : 1; });
  }
  Establish(adapter, client, other, server);
  const Address at = kServer.WithPort(7100);
  Listener listener = other.CreateListener().value();
  ASSERT_TRUE(listener.Bind(at).ok());
  ASSERT_TRUE(listener.Listen().ok());
  ASSERT_TRUE(second.connector.Bind(adapter.ResolveAddress(at).value()).ok());
  End second_server(other);
  Request connect, accept;
  ASSERT_TRUE(second.connector.Connect(second.pair, at, {}, &connect).pending());
  ASSERT_TRUE(listener.GetConnectionRequest(second_server.connector).ok());
  {
    const NoRoomForDescriptors full;
    ASSERT_TRUE(second_server.connector.Accept(second_server.pair, {}, &accept).pending());
    Status status = connect.GetResult();
    if (status.ok()) status = second.connector.CompleteConnect();
    EXPECT_EQ(status, StatusCode::kInsufficientResources);
    EXPECT_NE(status.message().find("RLIMIT_NOFILE"), std::string::npos) << status.ToString();
    EXPECT_FALSE(accept.GetResult().ok());
    // Its end sends its table with the first Write, which the other one has no room for.
    const auto remote = reinterpret_cast<std::uint64_t>(server.buffer.data());
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(client.pair.Write(nullptr, client.Part(0, 100), remote, server.region.remote_token()).ok());
      EXPECT_EQ(client.Next(), StatusCode::kSuccess);
    }
    Send(client, server, "still there");
  }
  EstablishAt(kServer.WithPort(7200), adapter, third, other, third_server);
  Send(third, third_server, "room again");
  EXPECT_EQ(lost, 0);
}

TEST_F(EndToEnd, KilledPeerIsReported) {
  Process server({EXAMPLE_REMOTE_MEMORY, "server", kServer.ToString()});
  ASSERT_EQ(server.Line(), "waiting at 127.0.0.1:7000");
  Adapter adapter = Adapter::Open().value();
  End client(adapter);
  std::promise<DisconnectReason> called;
  client.connector.SetDisconnectCallback([&](DisconnectReason reason) { called.set_value(reason); });
  ASSERT_TRUE(
      client.connector.NdkConnect(client.pair, adapter.ResolveAddress(kServer).value(), kServer).ok());
  ASSERT_TRUE(client.connector.CompleteConnect().ok());
  server.Kill(SIGKILL);
  auto reason = called.get_future();
  ASSERT_EQ(reason.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(reason.get(), DisconnectReason::kPeerProcessDied);
  EXPECT_TRUE(client.connector.Disconnect().ok());
}

TEST_F(EndToEnd, AForkedChildDisturbsNeitherSessionNorConnection) {
  Adapter adapter = Adapter::Open().value(), other = Adapter::Open().value();
  End client(adapter), server(other);
  Establish(adapter, client, other, server);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = client.connector.Disconnect() == StatusCode::kInvalidHandle &&
                         client.pair.Flush() == StatusCode::kInvalidHandle;
    exit(refused ? 0 : 1);  // With destructors and exit handlers.
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Send(client, server, "after the child");
  EXPECT_TRUE(adapter.CreateConnector().ok());
}

// Uses the library in a process of its own; returns true when every call succeeded.
bool WorksAlone(const std::function<void(Adapter&, End&, Adapter&, End&)>& establish) {
  auto adapter = Adapter::Open(), other = Adapter::Open();
  if (!adapter.ok() || !other.ok()) return false;
  End client(*adapter), server(*other);
  establish(*adapter, client, *other, server);
  return client.connector.Disconnect().ok() && server.connector.Disconnect().ok() && adapter->Close().ok() &&
         other->Close().ok();
}

TEST_F(EndToEnd, OpenInAChildForkedAfterTheFirstUseIsRefusedAtOnce) {
  { Adapter used = Adapter::Open().value(); }  // Closed again, but it counts as a use.
  const pid_t child = fork();
  if (child == 0) {
    alarm(3);  // Less than any time-out of the library.
    const Status refused = Adapter::Open().status(), queried = Adapter::QueryAdapters().status();
    if (fork() == 0) _exit(Adapter::Open().code() == StatusCode::kDeviceNotReady ? 0 : 1);
    int grandchild = -1;
    wait(&grandchild);
    const bool good = refused == StatusCode::kDeviceNotReady && queried == StatusCode::kDeviceNotReady &&
                      refused.message().find("exec") != std::string::npos && grandchild == 0;
    exit(good ? 0 : 1);  // With destructors and exit handlers.
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Adapter::Open().ok());  // The parent can still open adapters.
}

using EndToEndDeathTest = EndToEnd;

TEST_F(EndToEndDeathTest, ChildForkedBeforeTheFirstUseWorks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // Runs in a new process, which has not used the library.
  EXPECT_EXIT(
      {
        const pid_t child = fork();
        if (child == 0) exit(WorksAlone(Establish) ? 0 : 1);
        int status = -1;
        waitpid(child, &status, 0);
        const bool works = WorksAlone(Establish);
        broker_.reset();  // It holds the pipe on which the test waits.
        exit(status != 0 ? 2 : works ? 0 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(EndToEnd, MissingCarrierIsNamed) {
  setenv("NDBROKER_SESSION", "grpc", 1);
  const Status refused = Adapter::Open().status();
  setenv("NDBROKER_SESSION", "lane", 1);
  EXPECT_TRUE(Adapter::Open().ok());
  unsetenv("NDBROKER_SESSION");
  EXPECT_EQ(refused.code(), StatusCode::kNotSupported);
  EXPECT_NE(refused.message().find("link libndbroker_grpc"), std::string::npos) << refused.ToString();
}

}  // namespace
}  // namespace nd
