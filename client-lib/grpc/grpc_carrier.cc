// SPDX-License-Identifier: Apache-2.0
// Sessions by gRPC, as a library of its own. Linking it registers the carrier "grpc".
//
// The synchronous API with one reader thread: a sender pays for its own write, the reader polls by itself,
// and no gRPC thread pool stands between the socket and the caller. Messages stay the bytes that libndbroker
// encoded.
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <mutex>
#include <thread>
#include <vector>

#include "nd/carrier.h"

namespace nd {
namespace {

constexpr char kMethod[] = "/ndbroker.v1.Broker/Session";

grpc::ByteBuffer Buffer(std::span<const std::byte> bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

class GrpcCarrier final : public Carrier {
 public:
  GrpcCarrier(int socket, Sink* sink) : sink_(sink) {
    // A channel on our own descriptor: its peer was checked, no other session shares it, and it never
    // reconnects behind our back.
    channel_ = grpc::CreateInsecureChannelFromFd("ndbroker", socket);
    context_.set_initial_metadata_corked(true);
    const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::BIDI_STREAMING, channel_);
    using Factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;
    stream_.reset(Factory::Create(channel_.get(), method, &context_));
    reader_ = std::thread([this] { Read(); });
  }
  ~GrpcCarrier() override { Close(); }

  bool Send(std::span<const std::byte> message) override {
    std::lock_guard lock(write_mutex_);
    if (over_) return false;
    if (stream_->Write(Buffer(message))) return true;
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
    grpc::ByteBuffer buffer;
    while (stream_->Read(&buffer)) {
      grpc::Slice message;
      if (!buffer.DumpToSingleSlice(&message).ok()) break;
      if (!sink_->OnMessage(std::as_bytes(std::span(message.begin(), message.size())))) break;
    }
    context_.TryCancel();
    // Finish() must not run beside a Write().
    std::unique_lock lock(write_mutex_);
    over_ = true;
    const grpc::Status status = stream_->Finish();
    lock.unlock();
    sink_->OnClosed({CodeOf(status), status.error_message()});
  }

  static StatusCode CodeOf(const grpc::Status& status) {
    switch (status.error_code()) {
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::PERMISSION_DENIED:
        return StatusCode::kAccessDenied;
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        return StatusCode::kInsufficientResources;
      default:
        return StatusCode::kDeviceRemoved;
    }
  }

  Sink* const sink_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
  std::mutex write_mutex_;
  bool over_ = false;
  std::thread reader_;
};

[[maybe_unused]] const bool registered = [] {
  RegisterCarrier("grpc", [](int socket, Carrier::Sink* sink) -> std::unique_ptr<Carrier> {
    return std::make_unique<GrpcCarrier>(socket, sink);
  });
  return true;
}();

}  // namespace
}  // namespace nd
