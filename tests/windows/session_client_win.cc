// SPDX-License-Identifier: Apache-2.0
// For tests/windows/admin.sh: one session by gRPC through the pipes of a broker; prints its answers.
// usage: session_client DIRECTORY
#include <grpcpp/grpcpp.h>
#include <ndbroker/v1/session.grpc.pb.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "base/locate.h"
#include "base/os/socket.h"
#include "cli/admin_channel.h"
#include "client-lib/core/broker_lane.h"
#include "session/limits.h"

namespace {

constexpr auto kPatience = std::chrono::seconds(30);

int Print(const grpc::Status& status, const google::protobuf::Message& reply) {
  if (!status.ok()) {
    std::fprintf(stderr, "gRPC status %d: %s\n", status.error_code(), status.error_message().c_str());
    return 1;
  }
  std::fputs(reply.DebugString().c_str(), stdout);
  return 0;
}

// The token of the lane says who has the stream of gRPC; the list of adapters is a whole round of it.
int Session(const std::string& directory) {
  nd::UniqueFd socket = nd::os::ConnectLocal(nd::ClientSocketPath(directory, nd::kLaneSocketName),
                                             nd::os::SocketKind::kMessages, kPatience);
  if (!socket) {
    std::perror("lane.sock");
    return 1;
  }
  nd::client::BrokerLane lane(std::move(socket));
  const auto token = lane.ReadToken(nd::SystemClock().Now() + kPatience);
  if (!token.ok()) {
    std::fprintf(stderr, "no token: %s\n", token.status().message().c_str());
    return 1;
  }
  nd::UniqueFd pipe = nd::os::ConnectLocal(nd::ClientSocketPath(directory, nd::kBrokerSocketName),
                                           nd::os::SocketKind::kStream, kPatience);
  if (!pipe) {
    std::perror("broker.sock");
    return 1;
  }
  const nd::cli::AdminChannel channel(std::move(pipe));
  if (channel.get() == nullptr) {
    std::perror("the channel of gRPC");
    return 1;
  }
  const auto stub = ndbroker::v1::Broker::NewStub(channel.get());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto stream = stub->Session(&context);
  ndbroker::v1::ClientMessage hello, list;
  hello.set_op_id(1);
  hello.mutable_hello()->set_token(*token);
  hello.mutable_hello()->set_min_version(nd::session::kProtocolVersion);
  hello.mutable_hello()->set_max_version(nd::session::kProtocolVersion);
  hello.mutable_hello()->set_application("session-client");
  list.set_op_id(2);
  list.mutable_list_adapters();
  ndbroker::v1::ServerMessage answer;
  for (const ndbroker::v1::ClientMessage& message : {hello, list}) {
    if (!stream->Write(message) || !stream->Read(&answer)) return Print(stream->Finish(), answer);
    std::fputs(answer.DebugString().c_str(), stdout);
    if (answer.completion().status().code() != 0) return 1;
  }
  stream->WritesDone();
  while (stream->Read(&answer)) {
  }
  return Print(stream->Finish(), answer);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: session_client DIRECTORY\n", stderr);
    return 2;
  }
  return Session(argv[1]);
}
