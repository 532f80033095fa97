// SPDX-License-Identifier: Apache-2.0
// For tests: the broker's end of an fd lane, with a client that sends the datagrams of the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/fd_lane.h"
#include "daemon/service/client_lane.h"
#include "provider/hand_off.h"

namespace nd::service {

class LaneTest : public ::testing::Test {
 protected:
  LaneTest() {
    UniqueFd broker_end;
    EXPECT_TRUE(MakeSeqpacketPair(&broker_end, &client_).ok());
    Peer peer;
    peer.pid = static_cast<std::uint32_t>(::getpid());
    lane_ = std::make_unique<ClientLane>(
        loop_, std::move(broker_end), peer,
        ClientLane::Callbacks{[this] { ++room_; },
                              [this](const Status& why) { why_ = why.message(); },
                              {},
                              [this] { return patient_; }});
    EXPECT_TRUE(lane_->Open());
  }
  void SendBytes(const void* bytes, std::size_t size) {
    ASSERT_EQ(::send(client_.get(), bytes, size, 0), ssize_t(size));
  }
  void Ack(std::uint64_t id) {
    provider::AckRecord ack;
    ack.id = id;
    SendBytes(&ack, sizeof ack);
  }
  Status SendOne(std::uint64_t id) {
    const UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int number = fd.get();
    InFlight::Charge charge(in_flight_, 7, 1);
    return lane_->Send(id, std::as_bytes(std::span("record", 6)), std::span(&number, 1), charge);
  }
  template <typename Condition>
  bool RunUntil(Condition done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done() && std::chrono::steady_clock::now() < deadline)
      loop_.RunOnce(std::chrono::milliseconds(5));
    return done();
  }
  void Ends(const char* why) {
    EXPECT_TRUE(RunUntil([&] { return !why_.empty(); }));
    EXPECT_EQ(why_, why);
  }

  SkippingClock clock_;
  EventLoop loop_{clock_};
  UniqueFd client_;
  InFlight in_flight_{1024};
  bool patient_ = false;
  std::unique_ptr<ClientLane> lane_;
  int room_ = 0;
  std::string why_;
};

}  // namespace nd::service
