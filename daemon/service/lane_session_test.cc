// SPDX-License-Identifier: Apache-2.0
// Sessions on the fd lane, with hostile clients of every kind; see service_fixture.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "daemon/service/client_lane.h"
#include "daemon/service/raw_client.h"
#include "daemon/service/service_fixture.h"

namespace nd::service {
namespace {

class LaneSessionTest : public ServiceTest {
 protected:
  using Client = LaneClient;
  static pb::ClientMessage ListOp(std::uint64_t op_id) {
    pb::ClientMessage message;
    message.set_op_id(op_id);
    message.mutable_list_adapters();
    return message;
  }
};

TEST_F(LaneSessionTest, ConnectsWithoutGrpcAndDescriptorsComeBeforeTheirCompletions) {
  Client server(directory_), client(directory_);
  pb::ClientMessage m;
  m.mutable_create_listener()->set_adapter(server.adapter);
  const std::uint64_t listener = server.Make(m);
  m.mutable_listen()->set_listener(listener);
  SetLoopback(7001, m.mutable_listen()->mutable_local());
  ASSERT_EQ(server.Ask(m).status().code(), 0u);
  const std::uint64_t passive = server.Connector(), server_qp = server.QueuePair();
  ASSERT_EQ(server.lane.kept.size(), 1u) << "the counters page of the queue pair, before its completion";
  EXPECT_EQ(server.lane.kept[0].magic, provider::CountersPageRecord::kMagic);

  const std::uint64_t active = client.Connector(), client_qp = client.QueuePair();
  m.mutable_connect()->set_connector(active);
  m.mutable_connect()->set_queue_pair(client_qp);
  SetLoopback(7001, m.mutable_connect()->mutable_remote());
  SetLoopback(0, m.mutable_connect()->mutable_source());
  m.set_op_id(++client.last_op);
  ASSERT_TRUE(client.lane.SendMessage(m));
  m.mutable_get_connection_request()->set_listener(listener);
  m.mutable_get_connection_request()->set_connector(passive);
  ASSERT_EQ(server.Ask(m).status().code(), 0u);
  m.mutable_accept()->set_connector(passive);
  m.mutable_accept()->set_queue_pair(server_qp);
  m.set_op_id(++server.last_op);
  ASSERT_TRUE(server.lane.SendMessage(m));
  ASSERT_EQ(client.lane.ReceiveMessage().completion().status().code(), 0u);
  m.mutable_complete_connect()->set_connector(active);
  const pb::Completion completed = client.Ask(m), accepted = server.lane.ReceiveMessage().completion();
  ASSERT_EQ(completed.status().code(), 0u);
  ASSERT_EQ(accepted.status().code(), 0u);
  ASSERT_EQ(client.lane.kept.back().id, completed.hand_off());
  ASSERT_EQ(server.lane.kept.back().id, accepted.hand_off());
  EXPECT_EQ(client.lane.kept.back().fds.size(), 1u);
}

TEST_F(LaneSessionTest, WrongMessagesAreAnsweredAndTheSessionGoesOn) {
  Client client(directory_);
  pb::ClientMessage hello = HelloMessage(std::string(16, 'x'));
  EXPECT_EQ(client.Ask(hello).status().code(), 0xC0000010) << "a second Hello";
  EXPECT_EQ(client.Ask(pb::ClientMessage()).status().code(), 0xC00000BB) << "no operation";
  ASSERT_TRUE(client.lane.SendMessage(ListOp(0)));
  EXPECT_EQ(client.lane.ReceiveMessage().completion().status().code(), 0xC000000D) << "op id 0";
  EXPECT_EQ(client.Ask(ListOp(0)).adapters_size(), 1);
}

TEST_F(LaneSessionTest, HelloComesFirstAndWithTheTokenOfThisLane) {
  const auto refused = [](RawLane& lane, const pb::ClientMessage& first) {
    EXPECT_TRUE(lane.SendMessage(first));
    const std::uint32_t code = lane.ReceiveMessage().completion().status().code();
    EXPECT_EQ(lane.ReceiveMessage().session_end().status().code(), code)
        << "the end of the session has the reason";
    EXPECT_TRUE(lane.ClosedByBroker());
    return code;
  };
  RawLane a(directory_), b(directory_), c(directory_);
  const std::string token = a.Token();
  static_cast<void>(b.Token());
  static_cast<void>(c.Token());
  EXPECT_EQ(refused(c, ListOp(3)), 0xC0000010u);
  pb::ClientMessage hello = HelloMessage(token);
  hello.set_op_id(1);
  EXPECT_EQ(refused(b, hello), 0xC0000022u) << "a good token, but of another lane";
  ASSERT_TRUE(a.SendMessage(hello));
  EXPECT_EQ(a.ReceiveMessage().completion().status().code(), 0u);
  RawStream stream(directory_);
  EXPECT_EQ(stream.Hello(token).status().code(), 0xC0000022u) << "the session is taken";
}

TEST_F(LaneSessionTest, SessionsOfGrpcHaveNoMessagesOnTheLane) {
  RawClient client(directory_);
  ASSERT_TRUE(client.lane.SendMessage(ListOp(9)));
  EXPECT_TRUE(client.lane.ClosedByBroker());
  EXPECT_FALSE(client.stream.Finish().ok());
}

TEST_F(LaneSessionTest, ProtocolErrorsEndOnlyTheirOwnSession) {
  Client good(directory_);
  const auto ends = [&](const std::string& datagram) {
    Client bad(directory_);
    EXPECT_EQ(::send(bad.lane.fd(), datagram.data(), datagram.size(), 0),
              static_cast<ssize_t>(datagram.size()));
    EXPECT_TRUE(bad.lane.ClosedByBroker());
  };
  provider::MessageRecord record;
  const auto bytes = [&] { return std::string(reinterpret_cast<const char*>(&record), sizeof record); };
  const auto length = [](std::uint32_t n) {
    return std::string(reinterpret_cast<const char*>(&n), sizeof n);
  };
  ends(bytes() + length(3) + "\xff\xff\xff");
  ends(bytes() + length(3) + "\x08");
  ends(bytes() + "\x01\x02");
  ends(bytes() + length(0) + "\x01\x02");
  ends(bytes().substr(0, 5));
  ends(bytes() + std::string(provider::kMaxClientMessage + 5, 'x'));
  record.version = 2;
  ends(bytes());
  EXPECT_EQ(good.Ask(ListOp(0)).adapters_size(), 1);
}

TEST_F(LaneSessionTest, MessagesOfOneDatagramAreAnsweredInOrder) {
  Client client(directory_);
  const provider::MessageRecord record;
  std::string datagram(reinterpret_cast<const char*>(&record), sizeof record);
  constexpr std::uint64_t kOps = 100;
  for (std::uint64_t i = 1; i <= kOps; ++i) {
    const std::string message = ListOp(1000 + i).SerializeAsString();
    const auto length = static_cast<std::uint32_t>(message.size());
    datagram.append(reinterpret_cast<const char*>(&length), sizeof length).append(message);
  }
  ASSERT_EQ(::send(client.lane.fd(), datagram.data(), datagram.size(), 0),
            static_cast<ssize_t>(datagram.size()));
  for (std::uint64_t i = 1; i <= kOps; ++i) {
    ASSERT_EQ(client.lane.ReceiveMessage().completion().op_id(), 1000 + i);
  }
  EXPECT_EQ(client.Ask(ListOp(0)).adapters_size(), 1);
}

// The broker takes no descriptors from clients. TearDown compares the number of its open ones.
TEST_F(LaneSessionTest, DescriptorsOfAClientAreClosed) {
  for (const std::size_t count : {1u, 4u}) {
    Client client(directory_);
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::vector<int> sent(count, null.get());
    const provider::MessageRecord record;
    ASSERT_TRUE(SendWithFds(client.lane.fd(), std::as_bytes(std::span(&record, 1)), sent).ok());
    EXPECT_TRUE(client.lane.ClosedByBroker()) << count;
  }
}

TEST_F(LaneSessionTest, FloodIsAnsweredOneByOneToASlowReader) {
  Client client(directory_);
  constexpr std::uint64_t kOps = 20'000;
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= kOps; ++i) {
      if (!client.lane.SendMessage(ListOp(1000 + i))) break;
    }
  });
  std::this_thread::sleep_for(milliseconds(300));  // Long enough for the broker to stop reading.
  for (std::uint64_t i = 1; i <= kOps; ++i) {
    const pb::ServerMessage message = client.lane.ReceiveMessage();
    if (message.completion().op_id() != 1000 + i) {
      ADD_FAILURE() << i << " was answered with " << message.ShortDebugString();
      client.lane.Close();
      break;
    }
  }
  writer.join();
}

TEST_F(LaneSessionTest, ClientThatNeverReadsLosesItsSessionAndBrokerMemoryStays) {
  [[maybe_unused]] const std::uint64_t before = GetStatus().resident_bytes();
  Client client(directory_), honest(directory_);
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t said = 0;
  while (client.lane.SendMessage(ListOp(1000 + said))) ++said;
  const auto lasted = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(lasted, seconds(4)) << "patience first";
  EXPECT_LT(said, 100'000u);
  EXPECT_TRUE(client.lane.ClosedByBroker());
  EXPECT_EQ(honest.Ask(ListOp(0)).adapters_size(), 1);
#if !defined(__SANITIZE_ADDRESS__)  // The sanitizer keeps freed memory.
  EXPECT_LT(GetStatus().resident_bytes(), before + (16u << 20));
#endif
}

// The broker does not read a client whose answers wait. Neither does it wait for this client.
TEST_F(LaneSessionTest, HangUpEndsASessionThatTheBrokerDoesNotRead) {
  Client client(directory_), honest(directory_);
  std::uint64_t said = 0;
  const auto full = [&] {
    pollfd entry{client.lane.fd(), POLLOUT, 0};
    return ::poll(&entry, 1, 500) == 0;
  };
  while (!full()) {
    while (client.lane.SendMessage(ListOp(1000 + said), false)) ++said;
  }
  EXPECT_EQ(honest.Ask(ListOp(0)).adapters_size(), 1) << "others are served meanwhile";
  honest.lane.Close();
  client.lane.Close();
  EXPECT_TRUE(Until([&] { return GetStatus().sessions() == 0; }));
}

TEST_F(LaneSessionTest, ClientThatReadsAndAcknowledgesLateIsServed) {
  Client client(directory_);
  pb::ClientMessage m;
  m.set_op_id(77);
  m.mutable_create_queue_pair()->set_adapter(client.adapter);
  m.mutable_create_queue_pair()->set_receive_queue_depth(1);
  m.mutable_create_queue_pair()->set_initiator_queue_depth(1);
  ASSERT_TRUE(client.lane.SendMessage(m));
  const RawLane::Record page = client.lane.Receive();
  EXPECT_EQ(page.magic, provider::CountersPageRecord::kMagic);
  std::this_thread::sleep_for(3 * kAckTimeout / 2);
  client.lane.Ack(page.id);
  EXPECT_EQ(client.lane.ReceiveMessage().completion().op_id(), 77u);
  EXPECT_EQ(client.Ask(ListOp(0)).adapters_size(), 1);
}

}  // namespace
}  // namespace nd::service
