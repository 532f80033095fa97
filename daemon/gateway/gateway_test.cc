// SPDX-License-Identifier: Apache-2.0
// An Admin service in this process behind a real gateway, with real certificates and real sockets.
#include "daemon/gateway/gateway.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "base/tls/certificates.h"
#include "ndbroker/v1/admin.grpc.pb.h"

namespace nd::gateway {
namespace {

namespace v1 = ndbroker::v1;

// Replies like a broker, with more than one message where the method streams.
class Broker final : public v1::Admin::Service {
 public:
  explicit Broker(const std::string& directory) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + directory + "/admin.sock", grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::BrokerStatus* reply) override {
    reply->set_version("9.8.7");
    return grpc::Status::OK;
  }
  grpc::Status KillSession(grpc::ServerContext*, const v1::KillRequest* request,
                           v1::Outcome* reply) override {
    reply->mutable_status()->set_message("killed " + request->id());
    return grpc::Status::OK;
  }
  grpc::Status ListConnections(grpc::ServerContext*, const v1::ListRequest*,
                               v1::ConnectionList* reply) override {
    for (int i = 0; i < 20000; ++i) reply->add_items()->set_id("connection " + std::to_string(i));
    return grpc::Status::OK;
  }
  grpc::Status ListPorts(grpc::ServerContext*, const v1::ListRequest*, v1::PortList*) override {
    return {grpc::StatusCode::INVALID_ARGUMENT, "that is no id"};
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchEvent>* writer) override {
    bool heard = true;
    for (int i = 0; i < 1000 && heard; ++i) {
      v1::WatchEvent event;
      event.set_object(std::to_string(i));
      heard = writer->Write(event);
    }
    while (heard && !request->past_only() && !context->IsCancelled()) std::this_thread::yield();
    ++watches_over;
    return grpc::Status::OK;
  }
  std::atomic<int> watches_over{0};

 private:
  std::unique_ptr<grpc::Server> server_;
};

class GatewayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    char name[] = "/tmp/nd-gateway-XXXXXX";
    directory_ = mkdtemp(name);
    const Status made =
        tls::MakeCertificates({directory_ + "/tls", {"127.0.0.1"}, {"root", "eyes", "stranger"}});
    ASSERT_TRUE(made.ok()) << made.ToString();
    broker_ = std::make_unique<Broker>(directory_);
    options_.listen = *Address::Parse("127.0.0.1:0");
    options_.identity = Identity("server");
    options_.roles = {{"root"}, {"eyes"}};
    options_.broker_directory = directory_;
  }
  void TearDown() override {
    if (gateway_) {
      gateway_->Stop();
      serving_.join();
      gateway_.reset();
    }
    broker_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Start() {
    Result<std::unique_ptr<Gateway>> made = Gateway::Make(options_);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    gateway_ = std::move(made.value());
    serving_ = std::thread([this] { gateway_->Run(); });
  }
  tls::Identity Identity(const std::string& who) const {
    const std::string stem = directory_ + "/tls/" + who;
    return {stem + ".pem", stem + "-key.pem", directory_ + "/tls/ca.pem"};
  }
  UniqueFd Dial() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Connect(fd.get());
    return fd;
  }
  void Connect(int fd) const {
    sockaddr_storage storage{};
    const auto size = static_cast<socklen_t>(gateway_->address().ToSockaddr(&storage));
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&storage), size), 0);
  }
  std::unique_ptr<v1::Admin::Stub> As(const std::string& who) const {
    Result<tls::Pipe> pipe = tls::Open(tls::Context::Make(tls::Side::kClient, Identity(who)).value(), Dial(),
                                       "127.0.0.1", std::chrono::seconds(20));
    EXPECT_TRUE(pipe.ok()) << pipe.status().ToString();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    const int fd = pipe->plain.release();
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return v1::Admin::NewStub(grpc::CreateCustomInsecureChannelFromFd("ndbroker", fd, arguments));
  }

  std::string directory_;
  Gateway::Options options_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<Gateway> gateway_;
  std::thread serving_;
};

TEST_F(GatewayTest, AdministratorMayDoAllAndViewerMayRead) {
  Start();
  const auto root = As("root"), eyes = As("eyes"), stranger = As("stranger");
  v1::BrokerStatus status;
  v1::Outcome outcome;
  v1::KillRequest kill;
  kill.set_id("7");
  {
    grpc::ClientContext a, b;
    ASSERT_TRUE(root->GetStatus(&a, {}, &status).ok());
    EXPECT_EQ(status.version(), "9.8.7");
    ASSERT_TRUE(root->KillSession(&b, kill, &outcome).ok());
    EXPECT_EQ(outcome.status().message(), "killed 7");
  }
  {
    grpc::ClientContext a, b;
    EXPECT_TRUE(eyes->GetStatus(&a, {}, &status).ok());
    const grpc::Status refused = eyes->KillSession(&b, kill, &outcome);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_NE(refused.error_message().find("'eyes'"), std::string::npos);
  }
  grpc::ClientContext c;
  EXPECT_EQ(stranger->GetStatus(&c, {}, &status).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(GatewayTest, LargeRepliesErrorsAndStreamsPassUnchanged) {
  Start();
  const auto root = As("root");
  v1::ConnectionList list;
  grpc::ClientContext a, b, c, d;
  ASSERT_TRUE(root->ListConnections(&a, {}, &list).ok());
  ASSERT_EQ(list.items_size(), 20000);
  EXPECT_EQ(list.items(19999).id(), "connection 19999");
  v1::PortList ports;
  const grpc::Status bad = root->ListPorts(&b, {}, &ports);
  EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(bad.error_message(), "that is no id");
  v1::WatchRequest past;
  past.set_past_only(true);
  auto reader = root->Watch(&c, past);
  v1::WatchEvent event;
  int count = 0;
  while (reader->Read(&event)) EXPECT_EQ(event.object(), std::to_string(count++));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(count, 1000);
  // A client that hangs up ends the call at the broker, too.
  auto endless = root->Watch(&d, {});
  ASSERT_TRUE(endless->Read(&event));
  d.TryCancel();
  EXPECT_EQ(endless->Finish().error_code(), grpc::StatusCode::CANCELLED);
  while (broker_->watches_over.load() != 2) std::this_thread::yield();
}

TEST_F(GatewayTest, MissingBrokerIsUnavailableAndFoundAgain) {
  broker_.reset();
  Start();
  const auto root = As("root");
  v1::BrokerStatus status;
  {
    grpc::ClientContext context;
    EXPECT_EQ(root->GetStatus(&context, {}, &status).error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  broker_ = std::make_unique<Broker>(directory_);
  grpc::Status last;
  for (int i = 0; i < 20000; ++i) {
    grpc::ClientContext context;
    last = root->GetStatus(&context, {}, &status);
    if (last.ok()) break;
  }
  EXPECT_TRUE(last.ok()) << last.error_message();
}

TEST_F(GatewayTest, SilentConnectionsAreBoundedAndEnd) {
  options_.connections = 2;
  options_.handshake_timeout = std::chrono::milliseconds(300);
  Start();
  const UniqueFd first = Dial(), second = Dial();
  // The third connection is closed at once, or a slot was free for it. Both cases end with the closing of all
  // three.
  const UniqueFd third = Dial();
  for (const UniqueFd* fd : {&third, &first, &second}) {
    pollfd wait{fd->get(), POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, 20000), 1);
  }
  for (int i = 0; i < 50; ++i) {
    Result<tls::Pipe> pipe = tls::Open(tls::Context::Make(tls::Side::kClient, Identity("root")).value(),
                                       Dial(), "127.0.0.1", std::chrono::seconds(20));
    if (pipe.ok()) return;
  }
  ADD_FAILURE() << "its places did not come back";
}

// The crowd and the honest caller have the same address.
TEST_F(GatewayTest, CrowdWithoutHandshakeKeepsNobodyOut) {
  options_.connections = 8;
  options_.handshake_timeout = std::chrono::seconds(60);
  Start();
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back(Dial());
  const auto begin = std::chrono::steady_clock::now();
  const auto root = As("root");
  v1::BrokerStatus status;
  {
    grpc::ClientContext context;
    EXPECT_TRUE(root->GetStatus(&context, {}, &status).ok());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  // Clients whose certificate has no rights do not keep others out, and a client with rights is never
  // evicted.
  std::vector<std::unique_ptr<v1::Admin::Stub>> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(As("stranger"));
  for (int i = 0; i < 40; ++i) crowd.push_back(Dial());
  grpc::ClientContext context;
  EXPECT_TRUE(root->GetStatus(&context, {}, &status).ok());
}

// At whatever point descriptors run out, an ended connection leaves neither a thread nor a slot behind.
TEST_F(GatewayTest, NoSlotIsLostForLackOfADescriptor) {
  Start();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto context = tls::Context::Make(tls::Side::kClient, Identity("root")).value();
  ASSERT_TRUE(tls::Open(context, Dial(), "127.0.0.1", std::chrono::seconds(20)).ok());
  int opened = 0;
  rlimit tight = before;
  tight.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto all_over = [this] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (gateway_->open() > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return gateway_->open() == 0;
  };
  // The client uses descriptors of the same process, so each number of spare descriptors is tried more than
  // once.
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t spare = 1 + i % 12;
    ASSERT_TRUE(all_over()) << "after " << i;
    UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::vector<UniqueFd> all;
    for (UniqueFd fd(dup(0)); fd; fd.reset(dup(0))) all.push_back(std::move(fd));
    ASSERT_GT(all.size(), spare);
    all.resize(all.size() - spare);
    Connect(client.get());
    opened += tls::Open(context, std::move(client), "127.0.0.1", std::chrono::milliseconds(200)).ok();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, 60);
  EXPECT_TRUE(all_over());
}

TEST_F(GatewayTest, DoesNotStartWithoutAPortOrCertificates) {
  Start();
  options_.listen = gateway_->address();
  EXPECT_EQ(Gateway::Make(options_).code(), StatusCode::kSharingViolation);
  options_.identity.key = directory_ + "/none.pem";
  EXPECT_EQ(Gateway::Make(options_).code(), StatusCode::kInvalidParameter);
}

}  // namespace
}  // namespace nd::gateway
