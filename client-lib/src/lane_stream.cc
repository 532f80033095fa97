// SPDX-License-Identifier: Apache-2.0
// The session on its own fd lane: a sender pays for one system call, the reader is one thread of our own.
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "client-lib/src/message_codec.h"
#include "client-lib/src/session_stream.h"

namespace nd::client {
namespace {

class LaneStream final : public SessionStream {
 public:
  LaneStream(Lane& lane, Sink* sink) : lane_(lane), sink_(sink) {
    lane_.CarryMessages();
    reader_ = std::thread([this] { Read(); });
  }
  ~LaneStream() override { Close(); }

  bool Send(const Op& op) override {
    std::lock_guard lock(write_mutex_);
    ToProto(op, &message_);
    const auto length = static_cast<std::uint32_t>(message_.ByteSizeLong());
    const provider::MessageRecord record;
    constexpr std::size_t kHead = sizeof(record) + sizeof(length);
    datagram_.resize(kHead + length);
    std::memcpy(datagram_.data(), &record, sizeof(record));
    std::memcpy(datagram_.data() + sizeof(record), &length, sizeof(length));
    message_.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(datagram_.data() + kHead));
    return lane_.Send(datagram_).ok();
  }

  void Close() override {
    lane_.Shutdown();
    if (reader_.joinable()) reader_.join();
  }

 private:
  void Read() {
    pb::ServerMessage message;
    Status why;
    for (;;) {
      auto bytes = lane_.Receive();
      if (!bytes.ok()) {
        why =
            SessionEnded(StatusCode::kDeviceRemoved,
                         bytes.code() == StatusCode::kConnectionDisconnected ? "" : bytes.status().message());
        break;
      }
      if (!message.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
        why = SessionEnded(StatusCode::kDeviceRemoved, "what it sent is no ServerMessage");
        break;
      }
      if (message.has_session_end()) {
        const pb::Status& status = message.session_end().status();
        why = SessionEnded(static_cast<StatusCode>(status.code()), status.message());
        break;
      }
      if (auto incoming = FromProto(message)) sink_->OnMessage(std::move(*incoming));
    }
    lane_.Shutdown();  // Whoever waits to send hears it.
    sink_->OnClosed(why);
  }

  Lane& lane_;
  Sink* const sink_;
  std::mutex write_mutex_;
  pb::ClientMessage message_;
  std::vector<std::byte> datagram_;
  std::thread reader_;
};

}  // namespace

std::unique_ptr<SessionStream> OpenLaneStream(Lane& lane, SessionStream::Sink* sink) {
  return std::make_unique<LaneStream>(lane, sink);
}

}  // namespace nd::client
