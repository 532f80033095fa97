// SPDX-License-Identifier: Apache-2.0
// Lanes of several users on one loop: a user with many lanes has the turns of one user.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/fd_lane.h"
#include "daemon/service/client_lane.h"
#include "provider/hand_off.h"

namespace nd::service {
namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kGreedy = 1001, kHonest = 1002;
constexpr Duration kCost = microseconds(50);  // The cost of each message for the loop.

// Time passes only when a message is handled, so that a busy machine changes no turn.
class MessageClock final : public Clock {
 public:
  Time Now() const override { return now_; }
  void Skip(Duration by) { now_ += by; }

 private:
  Time now_{std::chrono::hours(1)};
};

class LaneTurnsTest : public ::testing::Test {
 protected:
  struct Client {
    std::uint32_t uid;
    UniqueFd socket;
    std::unique_ptr<ClientLane> lane;
    int handled = 0;
  };
  void Open(std::uint32_t uid, int messages) {
    auto client = std::make_unique<Client>();
    client->uid = uid;
    UniqueFd broker_end;
    ASSERT_TRUE(MakeSeqpacketPair(&broker_end, &client->socket).ok());
    Peer peer;
    peer.pid = static_cast<std::uint32_t>(::getpid());
    peer.uid = uid;
    ClientLane::Callbacks callbacks;
    callbacks.room = [] {};
    callbacks.ended = [](const Status& why) { ADD_FAILURE() << why.ToString(); };
    callbacks.message = [this, owner = client.get()](std::span<const std::byte>) {
      clock_.Skip(kCost);
      ++owner->handled;
      ++handled_[owner->uid == kHonest];
    };
    client->lane = std::make_unique<ClientLane>(loop_, std::move(broker_end), peer, std::move(callbacks));
    ASSERT_TRUE(client->lane->Open());
    for (int i = 0; i < messages; ++i) SendOne(*client);
    clients_.push_back(std::move(client));
  }
  static void SendOne(Client& client) {
    const provider::MessageRecord record;
    const std::uint32_t length = 1;
    std::array<std::byte, sizeof record + sizeof length + 1> datagram{};
    std::memcpy(datagram.data(), &record, sizeof record);
    std::memcpy(datagram.data() + sizeof record, &length, sizeof length);
    ASSERT_GT(::send(client.socket.get(), datagram.data(), datagram.size(), 0), 0);
  }
  template <typename Condition>
  bool RunUntil(Condition done) {
    for (int i = 0; i < 100'000 && !done(); ++i) loop_.RunOnce(Duration::zero());
    return done();
  }

  MessageClock clock_;
  EventLoop loop_{clock_};
  std::vector<std::unique_ptr<Client>> clients_;
  int handled_[2] = {0, 0};  // Messages handled: of the greedy user, of the honest one.
};

// Both users always have messages. With a turn for each lane the honest one would have a hundredth.
TEST_F(LaneTurnsTest, UserWithAHundredLanesHasTheTurnsOfOneUser) {
  for (int i = 0; i < 100; ++i) Open(kGreedy, 100);
  Open(kHonest, 100);
  ASSERT_TRUE(RunUntil([&] { return handled_[1] == 100; }));
  EXPECT_LE(handled_[0], 120);
  EXPECT_GE(handled_[0], 80);
}

// A process that waits for each answer has one message at a time. Its user keeps the credit of the turns in
// which it had none.
TEST_F(LaneTurnsTest, UserWithOneMessageAtATimeIsServedBetweenTheOthers) {
  for (int i = 0; i < 100; ++i) Open(kGreedy, 100);
  Open(kHonest, 0);
  for (int i = 1; i <= 50; ++i) {
    SendOne(*clients_.back());
    const int before = handled_[0];
    ASSERT_TRUE(RunUntil([&] { return handled_[1] == i; }));
    EXPECT_LE(handled_[0] - before, 8) << i;
  }
}

// A datagram with many messages is no longer turn than datagrams of one message.
TEST_F(LaneTurnsTest, UserWithManyMessagesInADatagramIsNotServedLonger) {
  Open(kGreedy, 0);
  Open(kHonest, 0);
  const provider::MessageRecord record;
  const std::uint32_t length = 1;
  std::vector<std::byte> datagram(sizeof record + 1000 * (sizeof length + 1));
  std::memcpy(datagram.data(), &record, sizeof record);
  for (std::size_t at = sizeof record; at < datagram.size(); at += sizeof length + 1) {
    std::memcpy(datagram.data() + at, &length, sizeof length);
  }
  ASSERT_GT(::send(clients_.front()->socket.get(), datagram.data(), datagram.size(), 0), 0);
  for (int i = 1; i <= 50; ++i) {
    SendOne(*clients_.back());
    const int before = handled_[0];
    ASSERT_TRUE(RunUntil([&] { return handled_[1] == i; }));
    EXPECT_LE(handled_[0] - before, 20) << i;
  }
  ASSERT_TRUE(RunUntil([&] { return handled_[0] == 1000; }));
}

TEST_F(LaneTurnsTest, LanesOfOneUserTakeTurns) {
  for (int i = 0; i < 200; ++i) Open(kGreedy, 40);
  ASSERT_TRUE(RunUntil([&] { return handled_[0] >= 200 * 20; }));
  for (const auto& client : clients_) {
    EXPECT_GE(client->handled, 1);
    EXPECT_LE(client->handled, 40);
  }
  ASSERT_TRUE(RunUntil([&] { return handled_[0] == 200 * 40; }));
}

// A lane that hangs up, or stops reading, while it waits for its turn is not read from.
TEST_F(LaneTurnsTest, LaneThatIsClosedBeforeItsTurnIsNotServed) {
  for (int i = 0; i < 20; ++i) Open(kGreedy, 16);
  loop_.RunOnce(Duration::zero());
  int closed = 0, before = handled_[0];
  for (const auto& client : clients_) {
    if (client->handled != 0) continue;
    if (closed++ % 2 == 0) {
      client->lane->Close();
    } else {
      client->lane->SetReading(false);
    }
  }
  ASSERT_GT(closed, 10) << before;
  ASSERT_TRUE(RunUntil([&] { return handled_[0] == 16 * (20 - closed); }));
  for (int i = 0; i < 10; ++i) loop_.RunOnce(Duration::zero());
  EXPECT_EQ(handled_[0], 16 * (20 - closed));
}

}  // namespace
}  // namespace nd::service
