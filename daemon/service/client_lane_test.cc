// SPDX-License-Identifier: Apache-2.0
// The fd lane with a client that violates every rule.
#include "daemon/service/client_lane.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "daemon/ops/process.h"
#include "daemon/service/lane_fixture.h"
#include "provider/sockets_record.h"

namespace nd::service {
namespace {

using provider::AckRecord;

TEST_F(LaneTest, LaneHoldsFourHandOversUntilTheyAreAcknowledged) {
  for (std::uint64_t id = 1; id <= kMaxUnacknowledged; ++id) EXPECT_TRUE(SendOne(id).ok());
  EXPECT_EQ(SendOne(9).code(), StatusCode::kDeviceBusy);
  Ack(2);
  EXPECT_TRUE(RunUntil([&] { return room_ == 1; }));
  EXPECT_TRUE(SendOne(9).ok());
  for (const std::uint64_t id : {9, 1, 3, 4}) Ack(id);
  EXPECT_TRUE(RunUntil([&] { return lane_->unacknowledged() == 0; }));
  EXPECT_EQ(why_, "");
}

TEST_F(LaneTest, ALostSocketIsReportedAndTheLaneStays) {
  UniqueFd broker_end, client;
  ASSERT_TRUE(MakeSeqpacketPair(&broker_end, &client).ok());
  std::vector<std::size_t> given;
  ClientLane::Callbacks callbacks{[] {}, [](const Status& why) { ADD_FAILURE() << why.ToString(); }};
  callbacks.sockets = [&](std::uint64_t, std::vector<UniqueFd> sockets) { given.push_back(sockets.size()); };
  Peer peer;
  peer.pid = static_cast<std::uint32_t>(::getpid());
  ClientLane lane(loop_, std::move(broker_end), peer, std::move(callbacks));
  ASSERT_TRUE(lane.Open());
  provider::SocketsRecord record;
  record.op_id = 5;
  record.fd_count = 1;
  const int socket[] = {client_.get()};
  const auto give = [&] { ASSERT_TRUE(SendWithFds(client.get(), EncodeSocketsRecord(record), socket).ok()); };
  give();
  EXPECT_TRUE(RunUntil([&] { return given.size() == 1; }));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit full{3, before.rlim_max};  // Those that are open stay open.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  give();
  EXPECT_TRUE(RunUntil([&] { return given.size() == 2; }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  give();
  EXPECT_TRUE(RunUntil([&] { return given.size() == 3; }));
  EXPECT_EQ(given, (std::vector<std::size_t>{1, 0, 1}));
}

// A close may block for as long as the client wants (SO_LINGER), so the loop does not close them.
TEST_F(LaneTest, DescriptorsOfAWrongDatagramAreClosedElsewhere) {
  const std::vector<std::byte> empty_record(sizeof(provider::MessageRecord));
  const std::vector<std::byte> too_long(provider::kMaxClientDatagram + 1);
  provider::SocketsRecord two;
  two.op_id = 5;
  two.fd_count = 2;
  const auto wrong_count = EncodeSocketsRecord(two);
  for (const std::span<const std::byte> wrong : {std::span(empty_record), std::span(too_long), wrong_count}) {
    UniqueFd broker_end, client;
    ASSERT_TRUE(MakeSeqpacketPair(&broker_end, &client).ok());
    std::size_t discarded = 0;
    bool ended = false;
    ClientLane::Callbacks callbacks{[] {}, [&](const Status&) { ended = true; }};
    callbacks.sockets = [](std::uint64_t, std::vector<UniqueFd>) { ADD_FAILURE(); };
    callbacks.discard = [&](std::vector<UniqueFd> fds) { discarded += fds.size(); };
    Peer peer;
    peer.pid = static_cast<std::uint32_t>(::getpid());
    ClientLane lane(loop_, std::move(broker_end), peer, std::move(callbacks));
    ASSERT_TRUE(lane.Open());
    const int socket[] = {client_.get()};
    ASSERT_TRUE(SendWithFds(client.get(), wrong, socket).ok());
    EXPECT_TRUE(RunUntil([&] { return ended; }));
    EXPECT_EQ(discarded, 1u) << wrong.size();
  }
}

// They were received together with the message after which reading stopped.
TEST_F(LaneTest, MessagesBehindAPauseAreHandledWhenItEnds) {
  UniqueFd broker_end, client;
  ASSERT_TRUE(MakeSeqpacketPair(&broker_end, &client).ok());
  std::string handled;
  std::unique_ptr<ClientLane> lane;
  ClientLane::Callbacks callbacks{[] {}, [](const Status& why) { ADD_FAILURE() << why.ToString(); }};
  callbacks.message = [&](std::span<const std::byte> message) {
    handled += static_cast<char>(message[0]);
    if (handled.size() == 1) lane->SetReading(false);
  };
  Peer peer;
  peer.pid = static_cast<std::uint32_t>(::getpid());
  lane = std::make_unique<ClientLane>(loop_, std::move(broker_end), peer, std::move(callbacks));
  ASSERT_TRUE(lane->Open());
  const provider::MessageRecord record;
  const std::uint32_t length = 1;
  for (const char text : {'a', 'b', 'c'}) {
    std::vector<char> datagram(sizeof record + sizeof length + 1, text);
    std::memcpy(datagram.data(), &record, sizeof record);
    std::memcpy(datagram.data() + sizeof record, &length, sizeof length);
    ASSERT_EQ(::send(client.get(), datagram.data(), datagram.size(), 0), ssize_t(datagram.size()));
  }
  EXPECT_TRUE(RunUntil([&] { return !handled.empty(); }));
  for (int i = 0; i < 3; ++i) loop_.RunOnce(Duration::zero());
  EXPECT_EQ(handled, "a");
  lane->SetReading(true);
  EXPECT_TRUE(RunUntil([&] { return handled.size() == 3; }));
  EXPECT_EQ(handled, "abc");
}

TEST_F(LaneTest, MessagesOfOneDatagramAreHandledOneByOne) {
  // The messages of `datagram` that were handled, or its end: reading is paused after the first message.
  const auto handled = [this](std::string datagram) {
    UniqueFd broker_end, client;
    EXPECT_TRUE(MakeSeqpacketPair(&broker_end, &client).ok());
    std::string out;
    std::unique_ptr<ClientLane> lane;
    ClientLane::Callbacks callbacks{[] {}, [&out](const Status& why) { out += why.message(); }};
    callbacks.message = [&](std::span<const std::byte> message) {
      out += std::string(reinterpret_cast<const char*>(message.data()), message.size()) + ";";
      if (out.size() == 2) lane->SetReading(false);
    };
    Peer peer;
    peer.pid = static_cast<std::uint32_t>(::getpid());
    lane = std::make_unique<ClientLane>(loop_, std::move(broker_end), peer, std::move(callbacks));
    EXPECT_TRUE(lane->Open());
    const provider::MessageRecord record;
    datagram.insert(0, reinterpret_cast<const char*>(&record), sizeof record);
    EXPECT_EQ(::send(client.get(), datagram.data(), datagram.size(), 0), ssize_t(datagram.size()));
    for (int i = 0; i < 3; ++i) loop_.RunOnce(Duration::zero());
    EXPECT_LE(out.size(), 2u) << "reading is paused";
    lane->SetReading(true);
    for (int i = 0; i < 10; ++i) loop_.RunOnce(Duration::zero());
    return out;
  };
  const auto message = [](const std::string& text) {
    const auto length = static_cast<std::uint32_t>(text.size());
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
  };
  EXPECT_EQ(handled(message("a") + message("bc") + message("") + message("d")), "a;bc;;d;");
  std::string many = message("a"), all = "a;";
  for (int i = 0; i < 100; ++i) {
    many += message("b");
    all += "b;";
  }
  EXPECT_EQ(handled(many), all);
  EXPECT_EQ(handled(message("a") + std::string("x")), "a;it sent a message without its length");
  EXPECT_EQ(handled(message("a") + message("b").substr(0, 4)),
            "a;it sent a message whose length field is wrong");
}

// One message is sent while the first of those that were received together is handled.
TEST_F(LaneTest, MessageThatWasReceivedLaterIsOfALaterMoment) {
  UniqueFd broker_end, client;
  ASSERT_TRUE(MakeSeqpacketPair(&broker_end, &client).ok());
  const auto send = [&client] {
    struct {
      provider::MessageRecord record;
      std::uint32_t length = 0;
    } datagram;
    ASSERT_EQ(::send(client.get(), &datagram, sizeof datagram, 0), ssize_t(sizeof datagram));
  };
  std::vector<std::uint64_t> moments;
  ClientLane::Callbacks callbacks{[] {}, [](const Status&) {}};
  callbacks.message = [&](std::span<const std::byte>) {
    moments.push_back(loop_.moment());
    if (moments.size() == 1) send();
  };
  Peer peer;
  peer.pid = static_cast<std::uint32_t>(::getpid());
  ClientLane lane(loop_, std::move(broker_end), peer, std::move(callbacks));
  ASSERT_TRUE(lane.Open());
  for (std::size_t i = 0; i < kMostReceived; ++i) send();
  ASSERT_TRUE(RunUntil([&] { return moments.size() == kMostReceived + 1; }));
  EXPECT_EQ(moments[0], moments[kMostReceived - 1]);
  EXPECT_LT(moments[kMostReceived - 1], moments[kMostReceived]);
}

// errno keeps the failure of another socket until the next call that fails.
TEST_F(LaneTest, ResetOfAnotherSocketDoesNotEndIt) {
  EXPECT_TRUE(SendOne(1).ok());
  Ack(1);
  errno = ECONNRESET;
  EXPECT_TRUE(RunUntil([&] { return lane_->unacknowledged() == 0 || !why_.empty(); }));
  EXPECT_EQ(why_, "");
}

TEST_F(LaneTest, HangUpEndsIt) {
  client_.reset();
  Ends("it hung up");
}

TEST_F(LaneTest, EveryWrongDatagramEndsIt) {
  AckRecord right;
  right.id = 1;
  const auto bytes = [](const AckRecord& record) {
    std::vector<char> out(sizeof record);
    std::memcpy(out.data(), &record, sizeof record);
    return out;
  };
  std::vector<std::vector<char>> wrong;
  for (std::size_t size = 1; size < sizeof right; ++size) wrong.emplace_back(size, 'x');
  wrong.push_back(std::vector<char>(sizeof right, '\0'));
  wrong.push_back(std::vector<char>(60000, 'y'));
  for (const int field : {0, 1, 2, 3}) {
    AckRecord bad = right;
    if (field == 0) bad.magic ^= 1;
    if (field == 1) bad.version = 2;
    if (field == 2) bad.size = 23;
    if (field == 3) bad.id = 2;
    wrong.push_back(bytes(bad));
  }
  std::vector<char> one_more = bytes(right);
  one_more.push_back(0);
  wrong.push_back(one_more);
  for (const std::vector<char>& datagram : wrong) {
    UniqueFd broker_end, client;
    ASSERT_TRUE(MakeSeqpacketPair(&broker_end, &client).ok());
    std::string why;
    ClientLane lane(loop_, std::move(broker_end), Peer{},
                    {[] {}, [&](const Status& reason) { why = reason.message(); }});
    ASSERT_TRUE(lane.Open());
    const int fd = 0;
    InFlight::Charge charge;
    ASSERT_TRUE(lane.Send(1, std::as_bytes(std::span("r", 1)), std::span(&fd, 1), charge).ok());
    ASSERT_EQ(::send(client.get(), datagram.data(), datagram.size(), 0), ssize_t(datagram.size()));
    EXPECT_TRUE(RunUntil([&] { return !why.empty(); })) << datagram.size();
    EXPECT_NE(why, "it did not acknowledge a hand-over within a second") << datagram.size();
    EXPECT_EQ(lane.Send(2, {}, {}, charge).code(), StatusCode::kConnectionDisconnected);
  }
}

TEST_F(LaneTest, AcknowledgingTwiceEndsIt) {
  ASSERT_TRUE(SendOne(1).ok());
  Ack(1);
  Ack(1);
  Ends("it acknowledged a hand-over that is not outstanding");
}

TEST_F(LaneTest, DescriptorsFromTheClientAreDiscarded) {
  ASSERT_TRUE(SendOne(1).ok());
  loop_.RunOnce(Duration::zero());
  const std::uint32_t before = ops::OpenFds();
  AckRecord ack;
  ack.id = 1;
  const int fd = 0;
  ASSERT_TRUE(SendWithFds(client_.get(), std::as_bytes(std::span(&ack, 1)), std::span(&fd, 1)).ok());
  Ends("it sent descriptors, which the broker never accepts");
  EXPECT_LE(ops::OpenFds(), before);
}

TEST_F(LaneTest, MissingAcknowledgementEndsItAfterASecondOfRealTime) {
  ASSERT_TRUE(SendOne(1).ok());
  const auto start = std::chrono::steady_clock::now();
  clock_.Skip(std::chrono::hours(1));
  Ends("it did not acknowledge a hand-over within a second");
  EXPECT_GE(std::chrono::steady_clock::now() - start, kAckTimeout);
}

TEST_F(LaneTest, LateClientKeepsItsLaneWhilePatientAllows) {
  patient_ = true;
  ASSERT_TRUE(SendOne(1).ok());
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < 5 * kAckTimeout / 2) loop_.RunOnce(kAckTimeout / 10);
  EXPECT_EQ(why_, "");
  EXPECT_EQ(in_flight_.all(), 1u);
  Ack(1);
  EXPECT_TRUE(RunUntil([&] { return lane_->unacknowledged() == 0; }));
  EXPECT_EQ(in_flight_.all(), 0u);
  ASSERT_TRUE(SendOne(2).ok());
  patient_ = false;
  Ends("it did not acknowledge a hand-over within a second");
}

// The loop itself was delayed. An acknowledgement that arrived meanwhile counts, although the timer runs
// first.
TEST_F(LaneTest, AcknowledgementInTimeIsReadBeforeTheTimeoutIsChecked) {
  ASSERT_TRUE(SendOne(1).ok());
  loop_.RunOnce(Duration::zero());
  Ack(1);
  std::this_thread::sleep_for(kAckTimeout + std::chrono::milliseconds(100));
  EXPECT_TRUE(RunUntil([&] { return lane_->unacknowledged() == 0 || !why_.empty(); }));
  EXPECT_EQ(why_, "");
}

TEST(InFlightTest, CrowdedCountsAllDescriptorsAndThoseOfTheUser) {
  InFlight in_flight(1024);  // Room for 256.
  InFlight::Charge some(in_flight, 1, 32);
  EXPECT_FALSE(in_flight.Crowded(1));
  {
    const InFlight::Charge one_more(in_flight, 1, 1);
    EXPECT_TRUE(in_flight.Crowded(1)) << "an eighth";
    EXPECT_FALSE(in_flight.Crowded(2));
  }
  EXPECT_FALSE(in_flight.Crowded(1));
  std::vector<InFlight::Charge> others;
  for (std::uint32_t uid = 10; uid < 13; ++uid) others.emplace_back(in_flight, uid, 32);
  EXPECT_FALSE(in_flight.Crowded(1));
  others.emplace_back(in_flight, 13, 1);
  EXPECT_TRUE(in_flight.Crowded(99)) << "half of the room is taken";
  InFlight::Charge moved = std::move(some);
  EXPECT_EQ(in_flight.all(), 129u);
}

}  // namespace
}  // namespace nd::service
