// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the connection manager on every system: a recording sink, two managers on one loop.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/os/self.h"
#include "provider/cm.h"
#include "provider/soft/cm/soft_cm.h"

namespace nd::provider::soft {

struct Recorded {
  enum Kind {
    kReserved,
    kRequest,
    kReply,
    kRejected,
    kFailed,
    kEstablished,
    kLost,
    kDisconnected,
    kAdapters
  };
  Kind kind;
  CmId id{};
  Status status;
  Bytes data;
  InboundRequest request;
  bool limits_known = true;
  ReadLimits limits;
};

class Recorder final : public CmSink {
 public:
  std::deque<Recorded> events;
  std::vector<CmId> reached;

  void OnReached(CmId id) override { reached.push_back(id); }
  void OnReserved(EndpointId endpoint, const Status& status) override {
    Push({Recorded::kReserved, CmId{static_cast<std::uint64_t>(endpoint)}, status, {}, {}, true, {}});
  }
  void OnRequest(const InboundRequest& request) override {
    Push({Recorded::kRequest,
          request.id,
          {},
          request.private_data,
          request,
          request.limits_known,
          request.peer_offer});
  }
  void OnReply(CmId id, bool known, const ReadLimits& peer, const Bytes& data) override {
    Push({Recorded::kReply, id, {}, data, {}, known, peer});
  }
  void OnRejected(CmId id, const Status& status, const Bytes& data) override {
    Push({Recorded::kRejected, id, status, data, {}, true, {}});
  }
  void OnFailed(CmId id, const Status& status) override {
    Push({Recorded::kFailed, id, status, {}, {}, true, {}});
  }
  void OnEstablished(CmId id) override { Push({Recorded::kEstablished, id, {}, {}, {}, true, {}}); }
  void OnLost(CmId id, const Status& status, const Bytes& data) override {
    Push({Recorded::kLost, id, status, data, {}, true, {}});
  }
  void OnPeerClosed(CmId, DisconnectReason) override {}
  void OnDisconnected(CmId id, const Status& status) override {
    Push({Recorded::kDisconnected, id, status, {}, {}, true, {}});
  }
  void OnAdaptersChanged() override { Push({Recorded::kAdapters, {}, {}, {}, {}, true, {}}); }
  void OnAcceptError(int error) override { accept_errors.push_back(error); }
  std::vector<int> accept_errors;

 private:
  void Push(Recorded event) { events.push_back(std::move(event)); }
};

// Test cases run in processes side by side, so each uses its own part of 127/8.
inline Address TestAddress(std::uint8_t host, std::uint16_t port = 0) {
  const auto pid = static_cast<unsigned>(os::ProcessNumber());
  return Address::V4(
      {127, static_cast<std::uint8_t>(1 + (pid >> 8) % 254), static_cast<std::uint8_t>(pid), host}, port);
}

class CmFixture : public ::testing::Test {
 protected:
  struct Host {
    Recorder sink;
    std::unique_ptr<ConnectionManager> cm;
  };

  // One adapter "soft0" with the given address.
  void Open(Host& host, std::uint8_t number, const std::function<void(Options&)>& change = {}) {
    Options options;
    options.adapters.emplace_back();
    options.adapters[0].addresses = {TestAddress(number)};
    if (change) change(options);
    auto made = MakeSoftCm(options, loop, host.sink);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    host.cm = std::move(made).value();
  }

  void Pump(const std::function<bool()>& until) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!until()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "nothing happens";
      loop.RunOnce(std::chrono::milliseconds(10));
    }
  }
  // Runs the loop until nothing is ready any more.
  void Settle() {
    for (int i = 0; i < 20; ++i) loop.RunOnce(std::chrono::milliseconds(1));
  }
  Recorded Next(Host& host) {
    Pump([&] { return !host.sink.events.empty(); });
    if (host.sink.events.empty()) return {Recorded::kAdapters, {}, {}, {}, {}, true, {}};
    Recorded event = std::move(host.sink.events.front());
    host.sink.events.pop_front();
    return event;
  }

  static ConnectParams To(const Address& local, const Address& remote, std::uint64_t id = 1) {
    ConnectParams params;
    params.id = CmId{id};
    params.endpoint = EndpointId{id};
    params.adapter = "soft0";
    params.local = local;
    params.remote = remote;
    params.offer = {16, 16};
    params.private_data = {1, 2, 3};
    return params;
  }

  SkippingClock clock;
  EventLoop loop{clock};
};

}  // namespace nd::provider::soft
