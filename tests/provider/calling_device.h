// SPDX-License-Identifier: Apache-2.0
// Tests only: a client half that makes its connections itself, by orders of the clerk
// (provider/networkdirect/cm/clerk.h). All devices are in this process and reach each other over a Network.
// Its queue pairs move no data.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "client-lib/core/testing/fake_device.h"
#include "provider/networkdirect/messages.h"
#include "provider/qp.h"

namespace nd::provider::networkdirect {

class CallingDevice;

// The listeners and the connections, each end with its number at its device.
struct Network {
  struct End {
    std::weak_ptr<CallingDevice> device;
    std::uint64_t number = 0;
  };
  std::mutex mutex;
  std::map<Address, std::pair<std::weak_ptr<CallingDevice>, std::uint64_t>>
      listeners;  // With their endpoint.
  std::map<std::pair<CallingDevice*, std::uint64_t>, End> peers;
  std::uint64_t last = 0;
};

class CallingQueuePair final : public client::FakeQueuePair {
 public:
  CallingQueuePair(QpOptions with, std::weak_ptr<CallingDevice> device)
      : FakeQueuePair(std::move(with)), device_(std::move(device)) {}
  bool sees_goodbye() const override { return true; }
  Status Attach(HandOff hand_off) override;
  void Disconnect(Duration timeout, std::function<void(Status)> done) override;

 private:
  const std::weak_ptr<CallingDevice> device_;
  std::uint64_t connection_ = 0;
};

class CallingDevice final : public client::FakeDevice, public std::enable_shared_from_this<CallingDevice> {
 public:
  explicit CallingDevice(std::shared_ptr<Network> network) : network_(std::move(network)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~CallingDevice() override {
    Post(nullptr);
    thread_.join();
  }

  TransportKind transport() const override { return kTransport; }
  bool numbered() const override { return true; }
  Status Meet(std::shared_ptr<DaemonHalf> daemon) override {
    daemon_ = std::move(daemon);
    Hello();
    std::unique_lock lock(mutex_);
    const bool met = changed_.wait_for(lock, std::chrono::seconds(20), [this] { return welcomes_ != 0; });
    return met ? welcome_ : Status(StatusCode::kIoTimeout);
  }
  void OnDaemonMessage(std::span<const std::byte> bytes) override {
    Post([this, order = Decode(bytes).value()] { Obey(order); });
  }
  void OnDaemonBack() override { Hello(); }
  Status AwaitListening(const Address&) override {
    std::promise<void> done;
    Post([&done] { done.set_value(); });
    done.get_future().wait();
    return {};
  }
  Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) override {
    auto made = std::make_shared<CallingQueuePair>(options, weak_from_this());
    made->number = ++last_queue_pair_;
    return std::shared_ptr<QueuePair>(made);
  }

  // What a queue pair does with its connection.
  void Adopt(std::uint64_t number, const QpOptions& options) {
    std::lock_guard lock(mutex_);
    on_gone_[number] = options.on_peer_closed;
  }
  void HangUp(std::uint64_t number) {
    Tell(number, [](CallingDevice& peer, std::uint64_t theirs) {
      std::function<void(DisconnectReason, Status)> gone;
      {
        std::lock_guard lock(peer.mutex_);
        gone = std::exchange(peer.on_gone_[theirs], nullptr);
      }
      if (gone) gone(DisconnectReason::kPeerDisconnected, {});
    });
  }
  int welcomes() {
    std::lock_guard lock(mutex_);
    return welcomes_;
  }
  Status Say(std::span<const std::byte> bytes) { return daemon_->Send(bytes); }

 private:
  void Hello() {
    Message hello;
    hello.kind = Kind::kHello;
    hello.text = "nd0";
    static_cast<void>(Say(Encode(hello)));
  }
  void Report(Kind kind, std::uint64_t number, const Message& with = {}) {
    Message report = with;
    report.kind = kind;
    report.number = number;
    static_cast<void>(Say(Encode(report)));
  }
  // Runs `what` on the thread of the device at the other end.
  void Tell(std::uint64_t number, std::function<void(CallingDevice&, std::uint64_t)> what) {
    Network::End end;
    {
      std::lock_guard lock(network_->mutex);
      const auto found = network_->peers.find({this, number});
      if (found == network_->peers.end()) return;
      end = found->second;
    }
    const auto peer = end.device.lock();
    if (peer) peer->Post([raw = peer.get(), number_there = end.number, what] { what(*raw, number_there); });
  }
  void Obey(const Message& order);
  void Call(const Message& order);

  void Post(std::function<void()> function) {
    std::lock_guard lock(mutex_);
    functions_.push_back(std::move(function));
    changed_.notify_all();
  }
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !functions_.empty(); });
      const std::function<void()> next = std::move(functions_.front());
      functions_.pop_front();
      if (!next) return;
      lock.unlock();
      next();
      lock.lock();
    }
  }

  const std::shared_ptr<Network> network_;
  std::shared_ptr<DaemonHalf> daemon_;
  std::atomic<std::uint32_t> last_queue_pair_{40};
  std::map<std::uint64_t, Address> endpoints_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> functions_;
  std::map<std::uint64_t, std::function<void(DisconnectReason, Status)>> on_gone_;
  int welcomes_ = 0;
  Status welcome_;
  std::thread thread_;
};

inline Status CallingQueuePair::Attach(HandOff hand_off) {
  const auto device = device_.lock();
  if (!device || hand_off.record.transport != kTransport) return StatusCode::kInvalidParameter;
  connection_ = NumberIn(PayloadOf<Payload>(hand_off.record));
  device->Adopt(connection_, options);
  return FakeQueuePair::Attach(std::move(hand_off));
}
inline void CallingQueuePair::Disconnect(Duration timeout, std::function<void(Status)> done) {
  if (const auto device = device_.lock(); device && connection_ != 0) device->HangUp(connection_);
  FakeQueuePair::Disconnect(timeout, std::move(done));
}

inline void CallingDevice::Obey(const Message& order) {
  switch (order.kind) {
    case Kind::kWelcome: {
      std::lock_guard lock(mutex_);
      ++welcomes_;
      welcome_ = order.status;
      changed_.notify_all();
      return;
    }
    case Kind::kReserve: {
      endpoints_[order.endpoint] = order.local;
      Message with;
      with.endpoint = order.endpoint;
      if (order.local.port() == 666)
        with.status = Status(StatusCode::kSharingViolation, "taken by the adapter");
      return Report(Kind::kReserved, 0, with);
    }
    case Kind::kListen: {
      std::lock_guard lock(network_->mutex);
      network_->listeners[endpoints_[order.endpoint]] = {weak_from_this(), order.endpoint};
      return;
    }
    case Kind::kUnlisten:
    case Kind::kRelease: {
      std::lock_guard lock(network_->mutex);
      network_->listeners.erase(endpoints_[order.endpoint]);
      return;
    }
    case Kind::kConnect:
      return Call(order);
    case Kind::kAccept:
      return Tell(order.number, [order](CallingDevice& peer, std::uint64_t number) {
        Message with;
        with.data = order.data;
        with.limits = {order.limits.outbound, order.limits.inbound};
        peer.Report(Kind::kReplied, number, with);
      });
    case Kind::kReject:
      return Tell(order.number, [order](CallingDevice& peer, std::uint64_t number) {
        Message with;
        with.data = order.data;
        with.status = Status(StatusCode::kConnectionRefused, "rejected", Detail::kPeerRejected);
        peer.Report(Kind::kRefused, number, with);
      });
    case Kind::kConfirm:
      Report(Kind::kEstablished, order.number);
      return Tell(order.number,
                  [](CallingDevice& peer, std::uint64_t number) { peer.Report(Kind::kEstablished, number); });
    case Kind::kAbort:
      return Tell(order.number, [](CallingDevice& peer, std::uint64_t number) {
        Message with;
        with.status = Status(StatusCode::kConnectionAborted, "withdrawn", Detail::kPeerWithdrew);
        peer.Report(Kind::kLost, number, with);
      });
    default:
      return;
  }
}

inline void CallingDevice::Call(const Message& order) {
  std::shared_ptr<CallingDevice> listener;
  std::uint64_t endpoint = 0, number = 0;
  {
    std::lock_guard lock(network_->mutex);
    if (const auto found = network_->listeners.find(order.remote); found != network_->listeners.end()) {
      listener = found->second.first.lock();
      endpoint = found->second.second;
    }
    if (listener) {
      number = kArrivedBit | ++network_->last;
      network_->peers[{this, order.number}] = {listener, number};
      network_->peers[{listener.get(), number}] = {weak_from_this(), order.number};
    }
  }
  if (!listener) {
    Message with;
    with.status = Status(StatusCode::kConnectionRefused, "nobody listens", Detail::kNoListener);
    return Report(Kind::kRefused, order.number, with);
  }
  Message arrived;
  arrived.endpoint = endpoint;
  arrived.local = order.remote;
  arrived.remote = order.local;
  arrived.limits = {order.limits.outbound, order.limits.inbound};
  arrived.data = order.data;
  listener->Post([raw = listener.get(), number, arrived] { raw->Report(Kind::kArrived, number, arrived); });
}

}  // namespace nd::provider::networkdirect
