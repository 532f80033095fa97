// SPDX-License-Identifier: Apache-2.0
// A session has one order of its messages and hand-overs.
#include "daemon/service/client_session.h"

#include <array>
#include <string>
#include <vector>

#include "daemon/service/lane_fixture.h"
#include "session/codec.h"

namespace nd::service {
namespace {

using ClientSessionTest = LaneTest;

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

TEST_F(ClientSessionTest, NoCompletionOvertakesItsHandOver) {
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

class TogetherTest : public ClientSessionTest {
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

TEST_F(ClientSessionTest, MessagesBehindAHandOverAreBounded) {
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

TEST_F(ClientSessionTest, CountersPagesAreHandedOverOnceAndReadUnchanged) {
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

TEST_F(ClientSessionTest, TokensAreComparedInFull) {
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
