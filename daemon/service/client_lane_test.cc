// SPDX-License-Identifier: Apache-2.0
// The fd lane with a client that violates every rule, and the order of messages and hand-overs.
#include "daemon/service/client_lane.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/fd_lane.h"
#include "daemon/ops/process.h"
#include "daemon/service/client_session.h"
#include "provider/sockets_record.h"
#include "session/codec.h"

namespace nd::service {
namespace {

using provider::AckRecord;

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
    AckRecord ack;
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

// ---- Session: one order over both channels.

struct FakeStream final : SessionSink {
  std::vector<std::uint64_t> op_ids;
  bool full = false;
  bool Send(const session::ServerMessage& message) override {
    if (!full) op_ids.push_back(std::get<session::Completion>(message).op_id);
    return !full;
  }
  bool Send(const session::Completion& completion) override {
    if (!full) op_ids.push_back(completion.op_id);
    return !full;
  }
  void End(const Status&) override {}
  void Cut() override {}
  void Taken() override {}
};

TEST_F(LaneTest, NoCompletionOvertakesItsHandOver) {
  ClientSession session(core::SessionId{1}, std::move(lane_), {}, in_flight_);
  auto stream = std::make_shared<FakeStream>();
  session.stream = stream;
  std::size_t closed = 0;
  for (std::uint64_t id = 1; id <= 6; ++id) {
    provider::HandOff hand_off;
    hand_off.record.id = id;
    hand_off.fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(
        session.Send(std::move(hand_off), [&](const std::vector<UniqueFd>& fds) { closed += fds.size(); })
            .ok());
    ASSERT_TRUE(session.Send(session::Completion{id, {}, {}}).ok());
  }
  EXPECT_EQ(stream->op_ids, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(closed, 4u) << "copies are given up as soon as they are sent";
  EXPECT_EQ(in_flight_.all(), 6u) << "held and unacknowledged ones";
  EXPECT_GT(session.waiting_bytes(), 0u);
  Ack(1);
  EXPECT_TRUE(RunUntil([&] { return room_ == 1; }));
  EXPECT_TRUE(session.Flush().ok());
  EXPECT_EQ(stream->op_ids, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  Ack(2);
  EXPECT_TRUE(RunUntil([&] { return room_ == 2; }));
  EXPECT_TRUE(session.Flush().ok());
  EXPECT_EQ(stream->op_ids, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(session.waiting_bytes(), 0u);
  stream->full = true;
  EXPECT_EQ(session.Send(session::Completion{7, {}, {}}).code(), StatusCode::kInsufficientResources);
}

class TogetherTest : public LaneTest {
 protected:
  TogetherTest() : session_(core::SessionId{1}, std::move(lane_), {}, in_flight_) {
    session_.stream = stream_;
    session_.takes_together = true;
  }
  void HandOver(std::uint64_t id) {
    provider::HandOff hand_off;
    hand_off.record.id = id;
    hand_off.fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const auto close = [this](const std::vector<UniqueFd>& fds) { closed_ += fds.size(); };
    ASSERT_TRUE(session_.Send(std::move(hand_off), close).ok());
  }
  void Complete(std::uint64_t op_id, std::uint64_t hand_off) {
    session::Completion completion{op_id, {}, {}};
    completion.reply.hand_off = hand_off;
    ASSERT_TRUE(session_.Send(completion).ok());
  }
  // The bytes of the next datagram that the client receives, with the number of its descriptors.
  struct Datagram {
    std::size_t size = 0, descriptors = 0;
  };
  Datagram Next() {
    const auto got = ReceiveWithFds(client_.get(), buffer_, /*blocking=*/false);
    return got.ok() ? Datagram{got->size, got->fds.size()} : Datagram{};
  }

  std::shared_ptr<FakeStream> stream_ = std::make_shared<FakeStream>();
  ClientSession session_;
  std::size_t closed_ = 0;
  std::array<std::byte, 512> buffer_{};
};

TEST_F(TogetherTest, AHandOverAndItsCompletionAreOneDatagram) {
  HandOver(7);
  EXPECT_EQ(Next().size, 0u) << "it waits for its completion";
  Complete(40, 7);
  const Datagram datagram = Next();
  EXPECT_EQ(datagram.descriptors, 1u);
  EXPECT_EQ(closed_, 1u);
  EXPECT_TRUE(stream_->op_ids.empty());
  provider::HandOffRecord record;
  provider::MessageRecord head;
  std::uint32_t length = 0;
  constexpr std::size_t kHead = sizeof record + sizeof head + sizeof length;
  ASSERT_GT(datagram.size, kHead);
  std::memcpy(&record, buffer_.data(), sizeof record);
  std::memcpy(&head, buffer_.data() + sizeof record, sizeof head);
  std::memcpy(&length, buffer_.data() + sizeof record + sizeof head, sizeof length);
  EXPECT_EQ(record.id, 7u);
  EXPECT_EQ(head.magic, provider::MessageRecord::kMagic);
  ASSERT_EQ(datagram.size, kHead + length);
  const auto message = session::DecodeServerMessage(std::span(buffer_).subspan(kHead, length));
  ASSERT_TRUE(message.ok() && message->has_value());
  EXPECT_EQ(std::get<session::Completion>(**message).op_id, 40u);
  EXPECT_EQ(session_.lane().unacknowledged(), 1u);
  Ack(7);
  EXPECT_TRUE(RunUntil([&] { return session_.lane().unacknowledged() == 0; }));
}

TEST_F(TogetherTest, AHandOverDoesNotWaitForAnotherMessage) {
  HandOver(7);
  Complete(39, 0);
  EXPECT_EQ(Next().size, sizeof(provider::HandOffRecord));
  EXPECT_EQ(stream_->op_ids, std::vector<std::uint64_t>{39});
  Complete(40, 7);
  EXPECT_EQ(stream_->op_ids, (std::vector<std::uint64_t>{39, 40}));
  HandOver(8);
  HandOver(9);
  EXPECT_EQ(Next().size, sizeof(provider::HandOffRecord)) << "nor for another hand-over";
}

TEST_F(TogetherTest, BothWaitForRoom) {
  for (std::uint64_t id = 1; id <= kMaxUnacknowledged + 1; ++id) {
    HandOver(id);
    Complete(10 + id, id);
  }
  for (std::uint64_t id = 1; id <= kMaxUnacknowledged; ++id) EXPECT_EQ(Next().descriptors, 1u);
  EXPECT_EQ(Next().size, 0u);
  EXPECT_GT(session_.waiting_bytes(), 0u);
  Ack(1);
  EXPECT_TRUE(RunUntil([&] { return room_ == 1; }));
  EXPECT_TRUE(session_.Flush().ok());
  EXPECT_EQ(Next().size, sizeof(provider::HandOffRecord));
  EXPECT_EQ(stream_->op_ids, std::vector<std::uint64_t>{15});
}

TEST_F(LaneTest, MessagesBehindAHandOverAreBounded) {
  ClientSession session(core::SessionId{1}, std::move(lane_), {}, in_flight_);
  session.stream = std::make_shared<FakeStream>();
  for (std::uint64_t id = 1; id <= kMaxUnacknowledged + 1; ++id) {
    provider::HandOff hand_off;
    hand_off.record.id = id;
    hand_off.fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(session.Send(std::move(hand_off), [](const std::vector<UniqueFd>&) {}).ok());
  }
  std::size_t waiting = 1;  // The last hand-over.
  Status status;
  while ((status = session.Send(session::Completion{waiting, {}, {}})).ok()) ++waiting;
  EXPECT_EQ(waiting, 65536u);
  EXPECT_EQ(status.code(), StatusCode::kInsufficientResources) << status.message();
}

TEST_F(LaneTest, CountersPagesAreHandedOverOnceAndReadUnchanged) {
  ClientSession session(core::SessionId{1}, std::move(lane_), {}, in_flight_);
  ASSERT_TRUE(session.SendPage(3, session.pages.Make(3).value()).ok());
  ASSERT_TRUE(session.pages.Has(255));
  std::array<std::byte, 256> buffer;
  FdMessage message = ReceiveWithFds(client_.get(), buffer, false).value();
  ASSERT_EQ(message.size, sizeof(provider::CountersPageRecord));
  ASSERT_EQ(message.fds.size(), 1u);
  EXPECT_EQ(ReceiveWithFds(client_.get(), buffer, false).code(), StatusCode::kDeviceBusy) << "only one page";
  Mapping page = Mapping::Map(message.fds[0].get(), 256 * sizeof(provider::QpCounters), true).value();
  auto* counters = reinterpret_cast<provider::QpCounters*>(page.data());
  counters[3].tx_bytes = 0xFFFFFFFFFFFFFFFF;
  counters[3].tx_sends = 5;
  counters[3].tx_writes = 6;
  EXPECT_EQ(session.pages.Read(3)->tx_bytes, 0xFFFFFFFFFFFFFFFF);
  EXPECT_EQ(session.pages.Read(3)->tx_messages(), 11u);
  counters[3].reads_in_flight = 2;
  counters[3].reads_in_flight_max = 0xFFFFFFFF;
  EXPECT_EQ(session.pages.Read(3)->reads_in_flight, 2u);
  EXPECT_EQ(session.pages.Read(3)->reads_in_flight_max, 0xFFFFFFFFu);
  EXPECT_FALSE(session.pages.Read(256).has_value());
  EXPECT_NE(::ftruncate(message.fds[0].get(), 0), 0) << "sealed";
}

// The accepted socket names the namespace of the client, without any permission over the client.
TEST(PeerTest, ND_232_NetworkNamespaceOfTheClient) {
  if (OwnNetwork() == 0) GTEST_SKIP() << "this kernel does not name network namespaces";
  const std::string path = ::testing::TempDir() + "nd_peer_" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), name, sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 2), 0);
  bool allowed = true;
  for (const bool elsewhere : {false, true}) {
    UniqueFd client;
    // unshare() affects the calling thread only, and that thread ends before anything else runs.
    std::thread([&] {
      if (elsewhere) allowed = ::unshare(CLONE_NEWNET) == 0;
      client.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(client.get(), name, sizeof address), 0);
    }).join();
    const UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
    if (!allowed) break;
    EXPECT_NE(PeerOf(accepted.get())->network, 0u);
    EXPECT_EQ(PeerOf(accepted.get())->network == OwnNetwork(), !elsewhere);
  }
  ::unlink(path.c_str());
  if (!allowed) GTEST_SKIP() << "network namespaces are not allowed here";
}

// The first call lacks a descriptor. The death test is a process of its own, in which nothing asked before.
TEST(PeerDeathTest, ShortageAtTheFirstCallDoesNotMakeLaterCallersForeign) {
  const UniqueFd any(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::uint64_t network = 0;
  socklen_t length = sizeof network;
  constexpr int kNetworkCookie = 71;  // SO_NETNS_COOKIE
  if (::getsockopt(any.get(), SOL_SOCKET, kNetworkCookie, &network, &length) != 0)
    GTEST_SKIP() << "this kernel does not name network namespaces";
  Peer myself;
  myself.pid = static_cast<std::uint32_t>(::getpid());
  myself.network = network;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        rlimit before{};
        ::getrlimit(RLIMIT_NOFILE, &before);
        rlimit none = before;
        none.rlim_cur = 0;
        ::setrlimit(RLIMIT_NOFILE, &none);
        const bool unknown = ForeignNamespacesOf(myself, -1).any();
        ::setrlimit(RLIMIT_NOFILE, &before);
        std::_Exit(unknown && !ForeignNamespacesOf(myself, -1).any() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(LaneTest, TokensAreComparedInFull) {
  std::array<std::byte, 16> token{};
  token[15] = std::byte{1};
  const ClientSession session(core::SessionId{1}, std::move(lane_), token, in_flight_);
  std::string right(16, '\0');
  EXPECT_FALSE(session.TokenIs(right));
  right[15] = 1;
  EXPECT_TRUE(session.TokenIs(right));
  EXPECT_FALSE(session.TokenIs(right.substr(1)));
}

}  // namespace
}  // namespace nd::service
