// SPDX-License-Identifier: Apache-2.0
// Carries a session on its fd lane: one system call per sent message, one thread for receiving.
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "client-lib/core/carriers.h"

namespace nd::client {
namespace {

class LaneCarrier final : public Carrier {
 public:
  LaneCarrier(BrokerLane& lane, Sink* sink) : lane_(lane), sink_(sink) {
    lane_.CarryMessages();
    reader_ = std::thread([this] { Read(); });
  }
  ~LaneCarrier() override { Close(); }

  bool Send(std::span<const std::byte> message) override {
    std::lock_guard lock(write_mutex_);
    const auto length = static_cast<std::uint32_t>(message.size());
    const provider::MessageRecord record;
    constexpr std::size_t kHead = sizeof(record) + sizeof(length);
    datagram_.resize(kHead + length);
    std::memcpy(datagram_.data(), &record, sizeof(record));
    std::memcpy(datagram_.data() + sizeof(record), &length, sizeof(length));
    if (length != 0) std::memcpy(datagram_.data() + kHead, message.data(), length);
    if (lane_.Send(datagram_).ok()) return true;
    lane_.Shutdown();  // Ends the session, and with it the operation that could not be sent.
    return false;
  }

  void Close() override {
    lane_.Shutdown();
    if (reader_.joinable()) reader_.join();
  }

 private:
  void Read() {
    Status why;
    for (;;) {
      auto bytes = lane_.Receive();
      if (!bytes.ok()) {
        const bool hung_up = bytes.code() == StatusCode::kConnectionDisconnected;
        why = Status(StatusCode::kDeviceRemoved, hung_up ? "" : bytes.status().message());
        break;
      }
      if (!sink_->OnMessage(*bytes)) break;
    }
    lane_.Shutdown();  // Ends waiting sends.
    sink_->OnClosed(why);
  }

  BrokerLane& lane_;
  Sink* const sink_;
  std::mutex write_mutex_;
  std::vector<std::byte> datagram_;
  std::thread reader_;
};

}  // namespace

std::unique_ptr<Carrier> OpenLaneCarrier(BrokerLane& lane, Carrier::Sink* sink) {
  return std::make_unique<LaneCarrier>(lane, sink);
}

}  // namespace nd::client
