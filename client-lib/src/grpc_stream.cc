// SPDX-License-Identifier: Apache-2.0
// The only file of the library that knows gRPC. The synchronous API with one reader thread: a sender pays for
// its own write, the reader polls by itself, and no gRPC thread pool stands between the socket and the
// caller.
#include "client-lib/src/session_stream.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <mutex>
#include <thread>

#include "client-lib/src/message_codec.h"
#include "ndbroker/v1/session.grpc.pb.h"

namespace nd::client {
namespace {

class GrpcStream final : public SessionStream {
 public:
  GrpcStream(UniqueFd socket, Sink* sink) : sink_(sink) {
    fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
    // A channel on our own descriptor: its peer was checked, no other session shares it, and it never
    // reconnects behind our back.
    channel_ = grpc::CreateInsecureChannelFromFd("ndbroker", socket.release());
    context_.set_initial_metadata_corked(true);
    stream_ = pb::Broker::NewStub(channel_)->Session(&context_);
    reader_ = std::thread([this] { Read(); });
  }

  ~GrpcStream() override { Close(); }

  bool Send(const Op& op) override {
    std::lock_guard lock(write_mutex_);
    if (over_) return false;
    ToProto(op, &message_);
    if (stream_->Write(message_)) return true;
    over_ = true;
    return false;
  }

  void Close() override {
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
    std::lock_guard lock(write_mutex_);
    over_ = true;
  }

 private:
  void Read() {
    pb::ServerMessage message;
    while (stream_->Read(&message)) {
      if (auto incoming = FromProto(message)) sink_->OnMessage(std::move(*incoming));
    }
    context_.TryCancel();
    // Finish() must not run beside a Write().
    std::unique_lock lock(write_mutex_);
    over_ = true;
    const grpc::Status status = stream_->Finish();
    lock.unlock();
    sink_->OnClosed(Translate(status));
  }

  static Status Translate(const grpc::Status& status) {
    switch (status.error_code()) {
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::PERMISSION_DENIED:
        return SessionEnded(StatusCode::kAccessDenied, status.error_message());
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        return SessionEnded(StatusCode::kInsufficientResources, status.error_message());
      default:
        return SessionEnded(StatusCode::kDeviceRemoved, status.error_message());
    }
  }

  Sink* const sink_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::ClientMessage, pb::ServerMessage>> stream_;
  std::mutex write_mutex_;
  bool over_ = false;
  pb::ClientMessage message_;
  std::thread reader_;
};

}  // namespace

std::unique_ptr<SessionStream> OpenGrpcStream(UniqueFd socket, SessionStream::Sink* sink) {
  return std::make_unique<GrpcStream>(std::move(socket), sink);
}

}  // namespace nd::client
