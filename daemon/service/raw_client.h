// SPDX-License-Identifier: Apache-2.0
// Tests only: a client without the checks of the client library.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/locate.h"
#include "ndbroker/v1/admin.grpc.pb.h"
#include "ndbroker/v1/session.grpc.pb.h"
#include "tests/testing/raw_lane.h"

namespace nd::service {

namespace pb = ::ndbroker::v1;

// The lane with messages of the session instead of gRPC. A message that is no message fails the test.
class RawLane : public ::nd::testing::RawLane {
 public:
  using ::nd::testing::RawLane::RawLane;
  void Ack(std::uint64_t id) { EXPECT_TRUE(::nd::testing::RawLane::Ack(id)); }
  bool SendMessage(const pb::ClientMessage& message, bool wait = true) {
    return SendBytes(Datagram(message.SerializeAsString()), wait);
  }
  // An empty message means that the broker hung up.
  pb::ServerMessage ReceiveMessage() {
    pb::ServerMessage message;
    if (const auto bytes = ReceiveBytes()) {
      EXPECT_TRUE(message.ParseFromString(*bytes));
    }
    return message;
  }
};

inline std::shared_ptr<grpc::Channel> Dial(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // One socket for each channel.
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
}

inline pb::ClientMessage HelloMessage(const std::string& token) {
  pb::ClientMessage message;
  message.mutable_hello()->set_token(token);
  message.mutable_hello()->set_min_version(1);
  message.mutable_hello()->set_max_version(1);
  message.mutable_hello()->set_application("raw-client");
  return message;
}

// One Session stream.
class RawStream {
 public:
  explicit RawStream(const std::string& directory)
      : stub_(pb::Broker::NewStub(Dial(ClientSocketPath(directory, kBrokerSocketName)))) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream_ = stub_->Session(&context_);
  }
  ~RawStream() {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }
  bool Write(const pb::ClientMessage& message) { return stream_->Write(message); }
  // Returns an empty message when the stream has ended.
  pb::ServerMessage Read() {
    pb::ServerMessage message;
    if (!stream_->Read(&message)) message.Clear();
    return message;
  }
  pb::Completion Ask(pb::ClientMessage message) {
    if (message.op_id() == 0) message.set_op_id(++last_op_);
    Write(message);
    return Read().completion();
  }
  pb::Completion Hello(const std::string& token) { return Ask(HelloMessage(token)); }
  grpc::Status Finish() {
    finished_ = true;
    while (Read().kind_case() != pb::ServerMessage::KIND_NOT_SET) {
    }
    return stream_->Finish();
  }
  void WritesDone() { stream_->WritesDone(); }

 private:
  std::unique_ptr<pb::Broker::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::ClientMessage, pb::ServerMessage>> stream_;
  std::uint64_t last_op_ = 100;
  bool finished_ = false;
};

// A lane and its stream, with the few operations that tests need.
class RawClient {
 public:
  explicit RawClient(const std::string& directory) : lane(directory), stream(directory) {
    hello = stream.Hello(lane.Token());
    pb::ClientMessage message;
    message.mutable_open_adapter();
    adapter = stream.Ask(message).handle();
  }
  std::uint64_t Make(void (*set)(pb::ClientMessage&, std::uint64_t)) {
    pb::ClientMessage message;
    set(message, adapter);
    const pb::Completion done = stream.Ask(message);
    EXPECT_EQ(done.status().code(), 0u) << done.status().message();
    return done.handle();
  }
  std::uint64_t Connector() {
    return Make([](pb::ClientMessage& m, std::uint64_t a) { m.mutable_create_connector()->set_adapter(a); });
  }
  std::uint64_t Listener() {
    return Make([](pb::ClientMessage& m, std::uint64_t a) { m.mutable_create_listener()->set_adapter(a); });
  }
  std::uint64_t QueuePair() {
    return Make([](pb::ClientMessage& m, std::uint64_t a) {
      m.mutable_create_queue_pair()->set_adapter(a);
      m.mutable_create_queue_pair()->set_receive_queue_depth(1);
      m.mutable_create_queue_pair()->set_initiator_queue_depth(1);
    });
  }

  RawLane lane;
  RawStream stream;
  pb::Completion hello;
  std::uint64_t adapter = 0;
};

inline void SetLoopback(std::uint32_t port, pb::Address* out) {
  out->set_family(4);
  out->set_ip(std::string("\x7f\0\0\1", 4));
  out->set_port(port);
}

// A lane with a Hello and an open adapter.
struct LaneClient {
  explicit LaneClient(const std::string& directory) : lane(directory) {
    pb::ClientMessage hello = HelloMessage(lane.Token());
    const pb::Completion greeted = Ask(hello);
    EXPECT_EQ(greeted.status().code(), 0u) << greeted.status().message();
    EXPECT_EQ(greeted.version(), 1u);
    pb::ClientMessage open;
    open.mutable_open_adapter();
    adapter = Ask(open).handle();
    EXPECT_NE(adapter, 0u);
  }
  pb::Completion Ask(pb::ClientMessage message) {
    message.set_op_id(++last_op);
    EXPECT_TRUE(lane.SendMessage(message));
    return lane.ReceiveMessage().completion();
  }
  std::uint64_t Make(pb::ClientMessage message) {
    const pb::Completion done = Ask(std::move(message));
    EXPECT_EQ(done.status().code(), 0u) << done.status().message();
    return done.handle();
  }
  std::uint64_t QueuePair() {
    pb::ClientMessage m;
    m.mutable_create_queue_pair()->set_adapter(adapter);
    m.mutable_create_queue_pair()->set_receive_queue_depth(1);
    m.mutable_create_queue_pair()->set_initiator_queue_depth(1);
    return Make(std::move(m));
  }
  std::uint64_t Connector() {
    pb::ClientMessage m;
    m.mutable_create_connector()->set_adapter(adapter);
    return Make(std::move(m));
  }
  // Listens at this port of the loopback address.
  std::uint64_t Listener(std::uint32_t port, bool events = false) {
    pb::ClientMessage m;
    m.mutable_create_listener()->set_adapter(adapter);
    const std::uint64_t listener = Make(m);
    m.mutable_listen()->set_listener(listener);
    m.mutable_listen()->set_connect_events(events);
    SetLoopback(port, m.mutable_listen()->mutable_local());
    EXPECT_EQ(Ask(m).status().code(), 0u);
    return listener;
  }
  // Makes a Connect from any port to this port of the loopback address, as the next operation.
  pb::ClientMessage Connect(std::uint64_t connector, std::uint64_t queue_pair, std::uint32_t port) {
    pb::ClientMessage m;
    m.set_op_id(++last_op);
    m.mutable_connect()->set_connector(connector);
    m.mutable_connect()->set_queue_pair(queue_pair);
    SetLoopback(port, m.mutable_connect()->mutable_remote());
    SetLoopback(0, m.mutable_connect()->mutable_source());
    return m;
  }

  RawLane lane;
  std::uint64_t adapter = 0, last_op = 0;
};

}  // namespace nd::service
