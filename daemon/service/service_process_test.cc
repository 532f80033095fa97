// SPDX-License-Identifier: Apache-2.0
// The service as a process of its own with hostile clients of every kind. After every case the daemon must be
// the same process, hold no more resources than before, and serve an honest client.
#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <thread>

#include "daemon/ops/logging.h"
#include "daemon/server/late_services.h"
#include "daemon/server/server.h"
#include "daemon/server/services.h"
#include "daemon/service/fairness_attacks.h"
#include "daemon/service/raw_client.h"
#include "daemon/service/service_fixture.h"
#include "daemon/service/testing/loop_manager.h"

namespace nd::service {
namespace {

pb::ClientMessage ListOp(std::uint64_t op_id) {
  pb::ClientMessage message;
  message.set_op_id(op_id);
  message.mutable_list_adapters();
  return message;
}

TEST_F(ServiceTest, HelloAnswersWithVersionAndEpoch) {
  RawClient client(directory_);
  EXPECT_EQ(client.hello.status().code(), 0u) << client.hello.status().message();
  EXPECT_EQ(client.hello.version(), 1u);
  EXPECT_EQ(client.hello.boot_epoch(), GetStatus().boot_epoch());
  EXPECT_NE(client.hello.boot_epoch(), 0u);
  EXPECT_EQ(client.hello.broker_version(), "test");
  const pb::SessionList sessions = Call(&pb::Admin::Stub::ListSessions, All());
  ASSERT_EQ(sessions.items_size(), 1);
  EXPECT_EQ(sessions.items(0).owner().pid(), static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(sessions.items(0).owner().uid(), ::getuid());
  EXPECT_EQ(sessions.items(0).owner().application(), "raw-client");
  EXPECT_EQ(sessions.items(0).owner().command(), "service_process");
}

TEST_F(ServiceTest, WrongTokenIsRefusedWithoutEffectOnOthers) {
  RawLane lane(directory_);
  const std::string token = lane.Token();
  ASSERT_EQ(token.size(), 16u);
  std::string wrong = token;
  wrong[15] = static_cast<char>(wrong[15] ^ 1);
  RawStream bad(directory_);
  EXPECT_EQ(bad.Hello(wrong).status().code(), 0xC0000022);
  EXPECT_EQ(bad.Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  RawStream good(directory_);
  EXPECT_EQ(good.Hello(token).status().code(), 0u) << "the lane itself is unharmed";
  RawStream again(directory_);
  EXPECT_EQ(again.Hello(token).status().code(), 0xC0000022) << "a token works once";
  EXPECT_EQ(good.Ask(ListOp(7)).adapters_size(), 1);
}

TEST_F(ServiceTest, TokenOfAnotherProcessIsRefused) {
  RawLane lane(directory_);
  const std::string token = lane.Token();
  std::string hex;
  for (const char c : token) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<unsigned char>(c));
    hex += text;
  }
  UniqueFd output;
  const pid_t thief = Spawn({"--steal", directory_, hex}, &output);
  EXPECT_EQ(ReadLine(output), "3221225506");  // ACCESS_DENIED
  ::waitpid(thief, nullptr, 0);
  RawStream owner(directory_);
  EXPECT_EQ(owner.Hello(token).status().code(), 0u);
}

TEST_F(ServiceTest, MalformedHellosAreRefusedWithTheReason) {
  const auto first = [&](const pb::ClientMessage& message) {
    RawStream stream(directory_);
    stream.Write(message);
    const pb::Completion completion = stream.Read().completion();
    EXPECT_FALSE(stream.Finish().ok());
    EXPECT_FALSE(completion.status().message().empty());
    return completion.status().code();
  };
  pb::ClientMessage message;
  EXPECT_EQ(first(message), 0xC0000010);
  message = ListOp(1);
  EXPECT_EQ(first(message), 0xC0000010);
  message.mutable_hello();
  EXPECT_EQ(first(message), 0xC0000022) << "no token";
  message.mutable_hello()->set_token(std::string(16, 'x'));
  EXPECT_EQ(first(message), 0xC00000BB) << "versions";
  message.mutable_hello()->set_min_version(1);
  message.mutable_hello()->set_max_version(1);
  message.set_op_id(0);
  EXPECT_EQ(first(message), 0xC000000D) << "op id 0";
  message.set_op_id(1);
  message.mutable_hello()->set_application("a b");
  EXPECT_EQ(first(message), 0xC000000D) << "application";
}

// A stream that never becomes a session must not look like success to its client.
TEST_F(ServiceTest, ND_230_StreamsWithoutHelloEndWithAnError) {
  for (const std::string payload : {"not a message at all", "\xFF\xFF\xFF\xFF\xFF", "-"}) {
    SCOPED_TRACE(payload);
    grpc::GenericStub stub(Dial(ClientSocketPath(directory_, kBrokerSocketName)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    grpc::CompletionQueue queue;
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, "/ndbroker.v1.Broker/Session", &queue);
    call->StartCall(nullptr);
    ASSERT_TRUE(wait());
    if (payload == "-") {
      call->WritesDone(nullptr);  // No message at all.
    } else {
      const grpc::Slice slice(payload);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    }
    wait();
    grpc::Status status;
    call->Finish(&status, nullptr);
    ASSERT_TRUE(wait());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message().find("first message must be a Hello"), std::string::npos);
    queue.Shutdown();
    wait();
  }
}

TEST_F(ServiceTest, WrongOperationsAreAnsweredAndTheSessionGoesOn) {
  RawClient client(directory_);
  pb::ClientMessage hello;
  hello.set_op_id(5);
  hello.mutable_hello();
  EXPECT_EQ(client.stream.Ask(hello).status().code(), 0xC0000010) << "a second Hello";
  pb::ClientMessage nothing;
  nothing.set_op_id(6);
  EXPECT_EQ(client.stream.Ask(nothing).status().code(), 0xC00000BB);
  client.stream.Write(ListOp(0));
  EXPECT_EQ(client.stream.Read().completion().status().code(), 0xC000000D) << "op id 0";
  EXPECT_EQ(client.stream.Ask(ListOp(9)).adapters_size(), 1);
}

TEST_F(ServiceTest, MessagesOverTheCapEndTheStream) {
  RawClient client(directory_);
  pb::ClientMessage message;
  message.set_op_id(3);
  message.mutable_connect()->set_private_data(std::string(70000, 'x'));
  client.stream.Write(message);
  EXPECT_FALSE(client.stream.Finish().ok());
  EXPECT_TRUE(client.lane.ClosedByBroker());
}

TEST_F(ServiceTest, FloodOfOperationsIsAnsweredOneByOne) {
  RawClient client(directory_);
  constexpr std::uint64_t kOps = 20000;
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kOps; ++i) client.stream.Write(ListOp(1000 + i));
  });
  for (std::uint64_t i = 1; i <= kOps; ++i) {
    const pb::ServerMessage message = client.stream.Read();
    if (message.completion().op_id() != 1000 + i) {
      ADD_FAILURE() << i << " was answered with " << message.ShortDebugString();
      break;
    }
  }
  writer.join();
}

TEST_F(ServiceTest, ClientThatNeverReadsLosesItsSessionAndBrokerMemoryStays) {
  [[maybe_unused]] const std::uint64_t before = GetStatus().resident_bytes();
  RawClient client(directory_);
  // The broker ends the session when more than the bound waits; then the write fails.
  std::uint64_t written = 0;
  while (written < 2'000'000 && client.stream.Write(ListOp(1000 + written))) ++written;
  EXPECT_LT(written, 2'000'000u);
  EXPECT_TRUE(client.lane.ClosedByBroker());
#if !defined(__SANITIZE_ADDRESS__)  // The sanitizer keeps freed memory.
  EXPECT_LT(GetStatus().resident_bytes(), before + (48u << 20));
#endif
}

TEST_F(ServiceTest, PendingOperationsAreBounded) {
  RawClient client(directory_);
  const std::uint64_t listener = client.Listener();
  pb::ClientMessage listen;
  listen.mutable_listen()->set_listener(listener);
  SetLoopback(7000, listen.mutable_listen()->mutable_local());
  ASSERT_EQ(client.stream.Ask(listen).status().code(), 0u);
  for (int i = 0; i < 100; ++i) {
    pb::ClientMessage get;
    get.set_op_id(10000 + static_cast<std::uint64_t>(i));
    get.mutable_get_connection_request()->set_listener(listener);
    const std::uint64_t connector = client.Connector();
    get.mutable_get_connection_request()->set_connector(connector);
    client.stream.Write(get);
    if (i == 99) break;  // Every operation from here on exceeds the bound.
  }
  const pb::Completion refused = client.stream.Ask(ListOp(0x7777));
  EXPECT_EQ(refused.op_id(), 0x7777u);
  EXPECT_EQ(refused.status().code(), 0xC000009A) << refused.status().message();
}

TEST_F(ServiceTest, LaneWithoutHelloIsClosed) {
  RawLane lane(directory_);
  ASSERT_EQ(lane.Token().size(), 16u);
  EXPECT_TRUE(lane.ClosedByBroker());
}

TEST_F(ServiceTest, UnprovenConnectionsAreCappedAndHonestOnesStillServed) {
  // More idle lanes and control connections than places; the broker closes them after a second.
  std::vector<RawLane> lanes;
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 200; ++i) {
    lanes.emplace_back(directory_);
    idle.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = ClientSocketPath(directory_, kBrokerSocketName);
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(::connect(idle.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  lanes.clear();
  idle.clear();
  RawClient honest(directory_);
  EXPECT_EQ(honest.hello.status().code(), 0u);
}

TEST_F(ServiceTest, LaneGarbageEndsThatSessionOnly) {
  RawClient bad(directory_), good(directory_);
  ASSERT_EQ(::send(bad.lane.fd(), "garbage", 7, 0), 7);
  EXPECT_TRUE(bad.lane.ClosedByBroker());
  EXPECT_EQ(bad.stream.Finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(good.stream.Ask(ListOp(9)).adapters_size(), 1);
  const pb::LogReply log = Call(&pb::Admin::Stub::GetLog, pb::LogRequest());
  EXPECT_NE(log.DebugString().find("it sent a datagram that is not an acknowledgement"), std::string::npos)
      << "an end by the broker is logged with its reason";
}

TEST_F(ServiceTest, StreamEndEndsTheSession) {
  RawClient client(directory_);
  client.stream.WritesDone();
  EXPECT_TRUE(client.stream.Finish().ok());
  EXPECT_TRUE(client.lane.ClosedByBroker());
}

TEST_F(ServiceTest, KilledClientsLeaveNoObjects) {
  for (int round = 0; round < 3; ++round) {
    UniqueFd output;
    const pid_t client = Spawn({"--hold", directory_}, &output);
    ASSERT_EQ(ReadLine(output), "HELD");
    const pb::BrokerStatus held = GetStatus();
    EXPECT_EQ(held.sessions(), 1u);
    EXPECT_EQ(held.listeners(), 1u);
    EXPECT_EQ(Call(&pb::Admin::Stub::ListConnections, All()).items_size(), 3);
    EXPECT_GT(Call(&pb::Admin::Stub::ListPorts, All()).items_size(), 0);
    ::kill(client, SIGKILL);
    ::waitpid(client, nullptr, 0);
    EXPECT_TRUE(Settles());
    EXPECT_EQ(Call(&pb::Admin::Stub::ListConnections, All()).items_size(), 0);
    EXPECT_EQ(Call(&pb::Admin::Stub::ListPorts, All()).items_size(), 0);
  }
}

TEST_F(ServiceTest, ConnectionIsHandedOverBeforeItsCompletion) {
  RawClient server(directory_), client(directory_);
  const std::uint64_t listener = server.Listener(), passive = server.Connector(),
                      server_qp = server.QueuePair();
  const RawLane::Record page = server.lane.Receive();
  EXPECT_EQ(page.magic, provider::CountersPageRecord::kMagic);
  ASSERT_EQ(page.fds.size(), 1u);
  server.lane.Ack(page.id);
  pb::ClientMessage m;
  m.mutable_listen()->set_listener(listener);
  m.mutable_listen()->set_backlog(5);
  SetLoopback(7001, m.mutable_listen()->mutable_local());
  ASSERT_EQ(server.stream.Ask(m).status().code(), 0u);

  const std::uint64_t active = client.Connector(), client_qp = client.QueuePair();
  client.lane.Ack(client.lane.Receive().id);
  m.mutable_connect()->set_connector(active);
  m.mutable_connect()->set_queue_pair(client_qp);
  SetLoopback(7001, m.mutable_connect()->mutable_remote());
  SetLoopback(0, m.mutable_connect()->mutable_source());
  m.set_op_id(1);
  client.stream.Write(m);

  pb::ClientMessage get;
  get.mutable_get_connection_request()->set_listener(listener);
  get.mutable_get_connection_request()->set_connector(passive);
  ASSERT_EQ(server.stream.Ask(get).status().code(), 0u);
  pb::ClientMessage accept;
  accept.set_op_id(2);
  accept.mutable_accept()->set_connector(passive);
  accept.mutable_accept()->set_queue_pair(server_qp);
  server.stream.Write(accept);
  const pb::Completion connected = client.stream.Read().completion();
  ASSERT_EQ(connected.status().code(), 0u) << connected.status().message();
  pb::ClientMessage complete;
  complete.mutable_complete_connect()->set_connector(active);
  const pb::Completion completed = client.stream.Ask(complete);
  ASSERT_EQ(completed.status().code(), 0u) << completed.status().message();
  const RawLane::Record mine = client.lane.Receive();
  EXPECT_EQ(mine.magic, provider::HandOffRecord::kMagic);
  EXPECT_EQ(mine.id, completed.hand_off());
  ASSERT_EQ(mine.fds.size(), 1u);
  client.lane.Ack(mine.id);
  const pb::Completion accepted = server.stream.Read().completion();
  ASSERT_EQ(accepted.status().code(), 0u) << accepted.status().message();
  RawLane::Record theirs = server.lane.Receive();
  EXPECT_EQ(theirs.id, accepted.hand_off());
  server.lane.Ack(theirs.id);
  ASSERT_EQ(theirs.fds.size(), 1u);
  EXPECT_EQ(::send(mine.fds[0].get(), "x", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(::recv(theirs.fds[0].get(), &byte, 1, 0), 1);
  theirs.fds.clear();
  EXPECT_EQ(::recv(mine.fds[0].get(), &byte, 1, 0), 0) << "the broker kept no copy of the peer's descriptor";

  const pb::ConnectionList list = Call(&pb::Admin::Stub::ListConnections, All());
  int local = 0;
  for (const auto& row : list.items()) local += row.state() == "Connected" && row.transport() == "local";
  EXPECT_EQ(local, 2) << list.DebugString();
}

TEST_F(ServiceTest, SecondBrokerIsRefusedByName) {
  UniqueFd output;
  const pid_t second = Spawn({"--serve", directory_}, &output);
  EXPECT_EQ(ReadLine(output), "another ndbrokerd (pid " + std::to_string(daemon_) + ") already serves " +
                                  directory_ + "; stop it or give another --dir");
  ::waitpid(second, nullptr, 0);
}

TEST_F(ServiceTest, BrokerThatWasKilledIsReplaced) {
  ::kill(daemon_, SIGKILL);
  ::waitpid(daemon_, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(ClientSocketPath(directory_, kBrokerSocketName)));
  StartDaemon("");
}

// Calls any method with one request and one reply, as bytes.
std::string CallBytes(const std::string& socket, const std::string& method, const std::string& request) {
  grpc::GenericStub stub(Dial(socket));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(10));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  grpc::ByteBuffer reply;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  EXPECT_TRUE(status.ok()) << method << " on " << socket << ": " << status.error_message();
  grpc::Slice whole;
  if (!reply.DumpToSingleSlice(&whole).ok()) return {};
  return {reinterpret_cast<const char*>(whole.begin()), whole.size()};
}

TEST_F(ServiceTest, HealthAndReflectionAnswerOnBothSockets) {
  const std::pair<const char*, const char*> sockets[] = {{"/client/broker.sock", "ndbroker.v1.Broker"},
                                                         {"/admin.sock", "ndbroker.v1.Admin"}};
  for (const auto& [socket, service] : sockets) {
    EXPECT_EQ(CallBytes(directory_ + socket, "/grpc.health.v1.Health/Check", ""), "\x08\x01") << "SERVING";
    const std::string services =
        CallBytes(directory_ + socket, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                  std::string("\x3a\0", 2));
    EXPECT_NE(services.find(service), std::string::npos);
    EXPECT_NE(services.find("grpc.health.v1.Health"), std::string::npos);
  }
}

// ---- The other modes of this program.

template <bool tcp>
Result<std::unique_ptr<provider::ConnectionManager>> MakeLoop(const provider::DaemonProviders&, EventLoop&,
                                                              provider::CmSink& sink) {
  return std::unique_ptr<provider::ConnectionManager>(new LoopManager(sink, tcp));
}

int Serve(const std::string& directory, const ManagerFactory& make_manager) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  ops::StartLogging("warning");
  const std::string file = directory + "/config.toml";
  Server::Options options;
  options.config = LoadConfig(file).value();
  options.directory = directory;
  options.version = "test";
  options.test_clock = true;
  options.make_manager = make_manager;
  options.make_services = MakeServices(MakeLateServices);
  options.load = [file] { return LoadConfig(file); };
  Result<std::unique_ptr<Server>> server = Server::Start(std::move(options));
  std::printf("%s\n", server.ok() ? "READY" : server.status().message().c_str());
  std::fflush(stdout);
  if (!server.ok()) return 1;
  int number = 0;
  sigwait(&signals, &number);
  return 0;
}

int Steal(const std::string& directory, const std::string& hex) {
  std::string token;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    token += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  RawLane own(directory);  // Having a lane does not make another lane's token valid.
  own.Token();
  RawStream stream(directory);
  std::printf("%u\n", stream.Hello(token).status().code());
  return 0;
}

int Hold(const std::string& directory) {
  RawClient client(directory);
  const std::uint64_t listener = client.Listener();
  pb::ClientMessage message;
  message.mutable_listen()->set_listener(listener);
  SetLoopback(7000, message.mutable_listen()->mutable_local());
  client.stream.Ask(message);
  client.QueuePair();
  client.lane.Ack(client.lane.Receive().id);
  for (int i = 0; i < 2; ++i) {
    pb::ClientMessage bind;
    bind.mutable_bind()->set_handle(client.Connector());
    SetLoopback(0, bind.mutable_bind()->mutable_local());
    client.stream.Ask(bind);
  }
  client.Connector();
  std::printf("HELD\n");
  std::fflush(stdout);
  for (;;) ::pause();
}

}  // namespace
}  // namespace nd::service

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "--serve") return nd::service::Serve(argv[2], nd::service::MakeLoop<false>);
  if (mode == "--serve-tcp") return nd::service::Serve(argv[2], nd::service::MakeLoop<true>);
  if (mode == "--stopped") return nd::service::StoppedInAHandOver(argv[2]);
  if (mode == "--hang-up" && argc > 3) return nd::service::HangUp(argv[2], std::atoi(argv[3]));
  if (mode == "--steal" && argc > 3) return nd::service::Steal(argv[2], argv[3]);
  if (mode == "--hold") return nd::service::Hold(argv[2]);
  if (mode == "--hold-connectors" && argc > 3)
    return nd::service::HoldConnectors(argv[2], std::atoi(argv[3]));
  if (mode == "--connect-to-myself" && argc > 4) {
    return nd::service::ConnectToMyself(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
