// SPDX-License-Identifier: Apache-2.0
// Who reads the lane: the carrier's thread, or a caller that waits for its answer while that thread rests.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd_lane.h"
#include "base/os/wait.h"
#include "client-lib/core/carriers.h"

namespace nd::client {
namespace {

// Far longer than a test: the thread reads again for another reason, or not at all.
constexpr Duration kForEver = std::chrono::hours(1);
constexpr Duration kPatience = std::chrono::seconds(30);

class LaneCarrierTest : public ::testing::Test, protected Carrier::Sink {
 protected:
  struct Delivery {
    char text = 0;
    std::thread::id by;
  };

  LaneCarrierTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    lane_ = std::make_unique<BrokerLane>(UniqueFd(ends[0]));
    broker_ = UniqueFd(ends[1]);
  }
  void TearDown() override { carrier_.reset(); }  // Its thread calls this object.

  void Open(Duration rest) { carrier_ = OpenLaneCarrier(*lane_, this, rest); }
  void BrokerSends(char text) { EXPECT_TRUE(SendWithFds(broker_.get(), Message(text), {}).ok()); }
  // A hand-over without descriptors.
  void BrokerHandsOver(std::uint64_t id) {
    provider::HandOffRecord record;
    record.id = id;
    EXPECT_TRUE(SendWithFds(broker_.get(), std::as_bytes(std::span(&record, 1)), {}).ok());
  }
  // The same with a message behind the record, or with these bytes.
  void BrokerHandsOverWith(std::uint64_t id, std::span<const std::byte> behind) {
    provider::HandOffRecord record;
    record.id = id;
    std::vector<std::byte> datagram(sizeof record);
    std::memcpy(datagram.data(), &record, sizeof record);
    datagram.insert(datagram.end(), behind.begin(), behind.end());
    EXPECT_TRUE(SendWithFds(broker_.get(), datagram, {}).ok());
  }
  static std::vector<std::byte> Message(char text) {
    const provider::MessageRecord record;
    const std::uint32_t length = 1;
    std::vector<std::byte> message(sizeof record + sizeof length + 1);
    std::memcpy(message.data(), &record, sizeof record);
    std::memcpy(message.data() + sizeof record, &length, sizeof length);
    message.back() = static_cast<std::byte>(text);
    return message;
  }
  // The text of the next message to the broker, or the id that it acknowledges as a digit; 0: there is none.
  char BrokerReads(bool blocking = true) {
    std::array<std::byte, 256> buffer{};
    const auto got = ReceiveWithFds(broker_.get(), buffer, blocking);
    if (!got.ok()) return 0;
    if (got->size != sizeof(provider::AckRecord)) return static_cast<char>(buffer[got->size - 1]);
    provider::AckRecord record;
    std::memcpy(&record, buffer.data(), sizeof record);
    return static_cast<char>('0' + record.id);
  }
  static std::span<const std::byte> Text(const char* text) { return std::as_bytes(std::span(text, 1)); }
  // One exchange, after which the carrier's thread rests.
  void LetTheThreadRest() {
    SetAwaitsNothing(true);
    BrokerSends('a');
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return asked_; });
  }
  void SetAwaitsNothing(bool nothing) {
    std::lock_guard lock(mutex_);
    awaits_nothing_ = nothing;
  }
  bool Has(std::size_t count) {
    std::lock_guard lock(mutex_);
    return deliveries_.size() >= count;
  }
  Delivery Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return deliveries_.size() >= count; })) {
      ADD_FAILURE() << "message " << count << " was not delivered";
      return {};
    }
    return deliveries_[count - 1];
  }
  void AwaitCaller() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return caller_reads_; });
  }
  // The predicate of a caller that waits until that many messages were delivered.
  std::function<bool()> Until(std::size_t count) {
    return [this, count] {
      std::lock_guard lock(mutex_);
      caller_reads_ = true;
      changed_.notify_all();
      return deliveries_.size() < count && !closed_;
    };
  }
  bool closed() {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  std::unique_ptr<BrokerLane> lane_;
  UniqueFd broker_;
  std::unique_ptr<LaneMessages> carrier_;

 private:
  bool OnMessage(std::span<const std::byte> message) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(closed_) << "OnClosed is the last call";
    deliveries_.push_back({static_cast<char>(message[0]), std::this_thread::get_id()});
    changed_.notify_all();
    return true;
  }
  void OnClosed(const Status&) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(closed_);
    closed_ = true;
    changed_.notify_all();
  }
  bool AwaitsNothing() override {
    std::lock_guard lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    return awaits_nothing_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Delivery> deliveries_;
  bool awaits_nothing_ = false, asked_ = false, caller_reads_ = false, closed_ = false;
};

TEST_F(LaneCarrierTest, CallerReadsItsAnswerWhileTheThreadRests) {
  Open(kForEver);
  LetTheThreadRest();
  BrokerSends('b');
  carrier_->ReadWhile(Until(2));
  EXPECT_EQ(Await(2).text, 'b');
  EXPECT_EQ(Await(2).by, std::this_thread::get_id());
  BrokerSends('c');
  carrier_->ReadWhile(Until(3));
  EXPECT_EQ(Await(3).by, std::this_thread::get_id());
}

TEST_F(LaneCarrierTest, ThreadThatReadsIsNotDisturbed) {
  Open(kForEver);
  carrier_->ReadWhile([] { return true; });  // Returns at once.
  BrokerSends('a');
  EXPECT_NE(Await(1).by, std::this_thread::get_id());
}

TEST_F(LaneCarrierTest, AttendEndsTheRest) {
  Open(kForEver);
  LetTheThreadRest();
  BrokerSends('b');
  carrier_->Attend();
  EXPECT_NE(Await(2).by, std::this_thread::get_id());
}

TEST_F(LaneCarrierTest, MessageThatNobodyAwaitsArrivesAfterTheRest) {
  Open(std::chrono::milliseconds(1));
  LetTheThreadRest();
  BrokerSends('b');
  EXPECT_NE(Await(2).by, std::this_thread::get_id());
}

TEST_F(LaneCarrierTest, CallerServesOthersMeanwhileAndWakesTheThreadAtItsEnd) {
  Open(kForEver);
  LetTheThreadRest();
  std::thread::id reader;
  std::thread caller([&] {
    reader = std::this_thread::get_id();
    carrier_->ReadWhile(Until(3));
  });
  AwaitCaller();
  carrier_->ReadWhile([] { return true; });  // Another caller: it returns at once.
  BrokerSends('b');
  Await(2);
  SetAwaitsNothing(false);
  carrier_->Attend();
  BrokerSends('c');
  caller.join();
  EXPECT_EQ(Await(2).by, reader);
  EXPECT_EQ(Await(3).by, reader);
  BrokerSends('d');
  EXPECT_NE(Await(4).by, reader);
}

TEST_F(LaneCarrierTest, ThreadReadsAgainAfterACallerThatReadForLong) {
  Open(std::chrono::milliseconds(1));
  LetTheThreadRest();
  const auto waiting = Until(2);
  std::thread caller([&] {
    carrier_->ReadWhile(waiting);
    waiting();  // The rest may have ended before, and then the caller does not read.
  });
  AwaitCaller();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  BrokerSends('b');
  caller.join();
  BrokerSends('c');
  EXPECT_EQ(Await(3).text, 'c');
}

TEST_F(LaneCarrierTest, MessageThatWasPutOffLeavesBeforeTheNextOne) {
  Open(kForEver);
  LetTheThreadRest();
  EXPECT_TRUE(carrier_->SendLater(Text("l")));
  EXPECT_EQ(BrokerReads(false), 0);
  EXPECT_TRUE(carrier_->SendLater(Text("m")));
  EXPECT_EQ(BrokerReads(false), 0);
  EXPECT_TRUE(carrier_->Send(Text("n")));
  for (const char text : {'l', 'm', 'n'}) EXPECT_EQ(BrokerReads(false), text);
}

TEST_F(LaneCarrierTest, MessageThatWasPutOffLeavesAfterTheRest) {
  Open(std::chrono::milliseconds(1));
  LetTheThreadRest();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(carrier_->SendLater(Text("m")));
    ASSERT_EQ(BrokerReads(), 'm') << i;
  }
}

TEST_F(LaneCarrierTest, MessageThatWasPutOffLeavesBeforeACallerWaits) {
  Open(kForEver);
  LetTheThreadRest();
  EXPECT_TRUE(carrier_->SendLater(Text("l")));
  EXPECT_EQ(BrokerReads(false), 0);
  std::thread caller([&] { carrier_->ReadWhile(Until(2)); });
  EXPECT_EQ(BrokerReads(), 'l');
  AwaitCaller();
  EXPECT_TRUE(carrier_->SendLater(Text("m")));
  EXPECT_EQ(BrokerReads(false), 'm') << "the caller may wait for ever";
  BrokerSends('b');
  caller.join();
}

TEST_F(LaneCarrierTest, FewMessagesArePutOff) {
  Open(kForEver);
  LetTheThreadRest();
  for (int i = 0; i < 1000 && BrokerReads(false) == 0; ++i) EXPECT_TRUE(carrier_->SendLater(Text("m")));
  EXPECT_EQ(BrokerReads(false), 'm') << "more than one left together";
}

struct LaneCarrierFeatureTest : LaneCarrierTest, ::testing::WithParamInterface<bool> {
  void ReadToken(bool takes_many) {
    provider::TokenRecord token;
    token.features = provider::kLaneMessages | (takes_many ? provider::kLaneManyMessages : 0u);
    EXPECT_TRUE(SendWithFds(broker_.get(), std::as_bytes(std::span(&token, 1)), {}).ok());
    EXPECT_TRUE(lane_->ReadToken(SystemClock().Now() + kPatience).ok());
  }
  std::string BrokerReadsAll() {
    std::string datagrams;
    for (char last = BrokerReads(false); last != 0; last = BrokerReads(false)) datagrams += last;
    return datagrams;
  }
  // The number of messages of one byte in the next datagram.
  std::size_t BrokerReadsMany() {
    std::array<std::byte, 256> buffer{};
    const auto got = ReceiveWithFds(broker_.get(), buffer, false);
    return got.ok() ? (got->size - sizeof(provider::MessageRecord)) / (sizeof(std::uint32_t) + 1) : 0;
  }
};

TEST_P(LaneCarrierFeatureTest, MessagesLeaveTogetherOnlyForABrokerThatTakesMany) {
  ReadToken(GetParam());
  Open(kForEver);
  const std::vector<std::vector<std::byte>> messages = {{std::byte{'x'}}, {std::byte{'y'}, std::byte{'z'}}};
  EXPECT_TRUE(carrier_->SendTogether(messages));
  EXPECT_EQ(BrokerReadsAll(), GetParam() ? "z" : "xz") << "the last byte of each";
}

TEST_P(LaneCarrierFeatureTest, MessagesThatWerePutOffLeaveTogetherOnlyForABrokerThatTakesMany) {
  ReadToken(GetParam());
  Open(kForEver);
  LetTheThreadRest();
  EXPECT_TRUE(carrier_->SendLater(Text("l")));
  EXPECT_TRUE(carrier_->SendLater(Text("m")));
  EXPECT_TRUE(carrier_->Send(Text("n")));
  EXPECT_EQ(BrokerReadsAll(), GetParam() ? "n" : "lmn") << "the last byte of each";
  EXPECT_TRUE(carrier_->Send(Text("o")));
  EXPECT_EQ(BrokerReadsAll(), "o");
}

TEST_P(LaneCarrierFeatureTest, NoMoreMessagesArePutOffThanTheBrokerHandlesInATurn) {
  ReadToken(GetParam());
  Open(kForEver);
  LetTheThreadRest();
  int put_off = 0;
  while (put_off < 1000 && BrokerReads(false) == 0) {
    EXPECT_TRUE(carrier_->SendLater(Text("m")));
    ++put_off;
  }
  EXPECT_EQ(put_off, 17);
}
// The acknowledgement waits for room, and a message is put off behind it.
TEST_P(LaneCarrierFeatureTest, NoMessageIsAddedToAnAcknowledgement) {
  ReadToken(GetParam());
  Open(kForEver);
  LetTheThreadRest();
  int sent = 0;
  while (sent < 100'000 && carrier_->TrySend(Text("m"))) ++sent;
  BrokerHandsOver(1);
  BrokerSends('b');
  carrier_->ReadWhile(Until(2));
  EXPECT_TRUE(carrier_->SendLater(Text("l")));
  for (int i = 0; i < sent; ++i) ASSERT_EQ(BrokerReads(), 'm') << i;
  EXPECT_TRUE(carrier_->Send(Text("n")));
  EXPECT_EQ(BrokerReadsAll(), GetParam() ? "1n" : "1ln");
}
// Many threads send while the lane is full: one of them waits for room, and others leave their messages to
// it.
TEST_P(LaneCarrierFeatureTest, MessagesAreLeftToTheThreadThatSends) {
  constexpr std::size_t kThreads = 20;
  const std::size_t left = GetParam() ? 16 : 0;
  ReadToken(GetParam());
  Open(kForEver);
  LetTheThreadRest();
  int sent = 0;
  while (sent < 100'000 && carrier_->TrySend(Text("m"))) ++sent;
  std::atomic<std::size_t> returned = 0;
  std::vector<std::thread> senders;
  for (std::size_t i = 0; i < kThreads; ++i) {
    senders.emplace_back([&] {
      EXPECT_TRUE(carrier_->Send(Text("n")));
      ++returned;
    });
  }
  const Time deadline = SystemClock().Now() + kPatience;
  while (returned < left && SystemClock().Now() < deadline) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(returned, left);
  for (int i = 0; i < sent; ++i) ASSERT_EQ(BrokerReads(), 'm') << i;
  for (std::thread& sender : senders) sender.join();
  std::size_t most = 0, all = 0;
  while (const std::size_t count = BrokerReadsMany()) {
    most = std::max(most, count);
    all += count;
  }
  EXPECT_EQ(all, kThreads);
  EXPECT_EQ(most, GetParam() ? left : 1);
}
INSTANTIATE_TEST_SUITE_P(TakesMany, LaneCarrierFeatureTest, ::testing::Bool());

TEST_F(LaneCarrierTest, AcknowledgementLeavesWithTheNextMessage) {
  Open(kForEver);
  LetTheThreadRest();
  BrokerHandsOver(1);
  BrokerSends('b');
  carrier_->ReadWhile(Until(2));
  EXPECT_EQ(BrokerReads(false), 0);
  EXPECT_TRUE(carrier_->Send(Text("m")));
  EXPECT_EQ(BrokerReads(false), '1');
  EXPECT_EQ(BrokerReads(false), 'm');
}

TEST_F(LaneCarrierTest, AcknowledgementLeavesBeforeACallerWaits) {
  Open(kForEver);
  LetTheThreadRest();
  BrokerHandsOver(1);
  BrokerSends('b');
  std::thread caller([&] { carrier_->ReadWhile(Until(3)); });
  EXPECT_EQ(BrokerReads(), '1');
  BrokerSends('c');
  caller.join();
}

// The broker sends nothing else before it has the acknowledgement.
TEST_F(LaneCarrierTest, AcknowledgementLeavesAlsoWhenNothingFollowsTheHandOver) {
  Open(kForEver);
  LetTheThreadRest();
  BrokerHandsOver(1);
  std::thread caller([&] { carrier_->ReadWhile(Until(2)); });
  os::Watched broker{broker_.get()};
  EXPECT_EQ(os::Wait({&broker, 1}, kPatience), 1);
  EXPECT_EQ(BrokerReads(false), '1');
  BrokerSends('b');
  caller.join();
}

TEST_F(LaneCarrierTest, AHandOverMayHaveItsMessageBehindIt) {
  Open(kForEver);
  LetTheThreadRest();
  BrokerHandsOverWith(1, Message('b'));
  carrier_->ReadWhile(Until(2));
  EXPECT_EQ(Await(2).text, 'b');
  EXPECT_TRUE(lane_->Take(1).has_value());
  EXPECT_EQ(BrokerReads(false), 0);
  EXPECT_TRUE(carrier_->Send(Text("m")));
  EXPECT_EQ(BrokerReads(false), '1');
  EXPECT_EQ(BrokerReads(false), 'm');
}

TEST_F(LaneCarrierTest, NothingElseIsBehindAHandOver) {
  Open(kForEver);
  BrokerHandsOverWith(1, Text("x"));
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!closed() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(closed());
}

TEST_F(LaneCarrierTest, AcknowledgementLeavesWhenTheRestIsOver) {
  Open(std::chrono::milliseconds(1));
  LetTheThreadRest();
  BrokerHandsOver(1);
  BrokerSends('b');
  carrier_->ReadWhile(Until(2));
  EXPECT_EQ(BrokerReads(), '1');
}

TEST_F(LaneCarrierTest, TrySendDoesNotWaitForRoom) {
  Open(kForEver);
  LetTheThreadRest();
  int sent = 0;
  while (sent < 100'000 && carrier_->TrySend(Text("m"))) ++sent;
  ASSERT_LT(sent, 100'000);
  EXPECT_FALSE(closed());
  std::thread sender([&] { EXPECT_TRUE(carrier_->Send(Text("n"))); });
  for (int i = 0; i < sent; ++i) ASSERT_EQ(BrokerReads(), 'm') << i;
  EXPECT_EQ(BrokerReads(), 'n');
  sender.join();
}

TEST_F(LaneCarrierTest, CloseEndsACallerThatReads) {
  Open(kForEver);
  LetTheThreadRest();
  std::thread caller([&] { carrier_->ReadWhile(Until(100)); });
  AwaitCaller();
  carrier_->Close();
  EXPECT_TRUE(closed());
  caller.join();
  carrier_->ReadWhile([] { return true; });  // Returns at once.
}

TEST_F(LaneCarrierTest, CloseEndsTheRest) {
  Open(kForEver);
  LetTheThreadRest();
  carrier_->Close();
  EXPECT_TRUE(closed());
}

TEST_F(LaneCarrierTest, CallerNoticesThatTheBrokerHungUp) {
  Open(kForEver);
  LetTheThreadRest();
  broker_.reset();
  carrier_->ReadWhile([] { return true; });
  while (!closed()) std::this_thread::yield();
}

}  // namespace
}  // namespace nd::client
