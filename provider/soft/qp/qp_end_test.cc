// SPDX-License-Identifier: Apache-2.0
// Ends of connections, streams and registrations: no data is lost, no descriptor stays open, and no thread
// sleeps for ever.
#include <algorithm>
#include <future>
#include <thread>

#include "base/os/semaphore.h"
#include "provider/soft/qp/testing.h"
#include "provider/soft/qp/testing_os.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

// Two threads wait for each other, again and again. Not std::barrier: see base/os/semaphore_win.cc.
class Meeting {
 public:
  void Arrive(bool active) {
    here_[active].Post();
    here_[!active].Wait();
  }

 private:
  os::Semaphore here_[2];
};

class EndTest : public ::testing::TestWithParam<Link> {
 protected:
  void Connect(const Tuning& tuning = {}) {
    a = std::make_unique<End>(tuning);
    b = std::make_unique<End>(tuning);
    HandOffs both = MakeHandOffs(GetParam());
    ASSERT_TRUE(a->qp->Attach(std::move(both.active)).ok());
    ASSERT_TRUE(b->qp->Attach(std::move(both.passive)).ok());
  }
  bool buffers() const { return GetParam() == Link::kShared; }
  bool foreign() const { return GetParam() == Link::kIwarpForeign; }
  std::unique_ptr<End> a, b;
};

INSTANTIATE_TEST_SUITE_P(Links, EndTest,
                         ::testing::Values(Link::kShared, Link::kSharedRingOnly, Link::kIwarp,
                                           Link::kIwarpForeign),
                         [](const auto& c) { return std::string(NameOf(c.param)); });

// Polls like an application, up to the time-out of the test.
bool PollFor(CompletionQueue& cq, std::size_t completions) {
  const Time deadline = In(kPatience);
  Completion done;
  while (completions != 0) {
    if (cq.Poll({&done, 1}) == 0) {
      if (Time(std::chrono::steady_clock::now()) > deadline) return false;
    } else if (done.status == StatusCode::kSuccess) {
      --completions;
    } else {
      ADD_FAILURE() << Name(done.status);
      return false;
    }
  }
  return true;
}

TEST_P(EndTest, SixtyFourMebibytesBothWays) {
  constexpr std::size_t kSize = 64 << 20;
  Connect();
  Memory mine(*a, kSize, buffers()), theirs(*b, kSize, buffers());
  mine.Fill(1);
  Sge all = mine.At(0, kSize);
  ASSERT_TRUE(a->qp->Write(nullptr, {&all, 1}, theirs.Address(), theirs.token(), 0).ok());
  ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
  mine.Fill(2);
  // With another implementation, a Read after the Write proves more than the completion of the Write.
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(a->qp->Read(nullptr, {&all, 1}, theirs.Address(), theirs.token(), 0).ok());
    const Completion done = a->Next();
    ASSERT_EQ(done.status, StatusCode::kSuccess);
    ASSERT_EQ(done.bytes_transferred, kSize);
  }
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, kSize), 0);
  mine.Fill(1);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, kSize), 0);
}

TEST_P(EndTest, MemoryLeavesNoDescriptorBehind) {
  Connect();
  Memory own(*a, 4096, buffers());
  Sge eight = own.At(0, 8);
  const auto before = OpenDescriptors();
  std::vector<std::shared_ptr<MemoryRegion>> dead;  // A handle of a deregistered region holds no memory.
  for (int i = 0; i < 20; ++i) {
    auto buffer = b->device->AllocateBuffer(8192).value();
    auto region = b->device->Register(buffer->data(), 8192, kAllowRemoteWrite | kAllowLocalWrite).value();
    for (int twice = 0; twice < 2; ++twice) {
      ASSERT_TRUE(a->qp
                      ->Write(nullptr, {&eight, 1}, reinterpret_cast<std::uintptr_t>(buffer->data()),
                              region->remote_token(), 0)
                      .ok());
      ASSERT_EQ(a->Next().status, StatusCode::kSuccess);
    }
    Completion none;
    b->cq->Poll({&none, 1});
    if (foreign()) {  // Its Write completes before it is placed.
      ASSERT_TRUE(
          b->Until([&] { return b->counters.rx_writes.load() == 2u * (static_cast<unsigned>(i) + 1); }));
    }
    ASSERT_TRUE(region->Deregister().ok());
    dead.push_back(std::move(region));
  }
  // No new descriptor is open. Descriptors that an earlier test was closing may be gone.
  EXPECT_TRUE(b->Until([&] { return std::ranges::includes(before, OpenDescriptors()); }));
}

TEST_P(EndTest, SendsReceivedBeforeTheGoodbyeAreConfirmed) {
  if (foreign()) GTEST_SKIP() << "a foreign peer does not confirm";
  for (int round = 0; round < 1000; ++round) {
    Connect();
    Memory m(*a, 4096, buffers()), r(*b, 4096, buffers());
    Sge out = m.At(0, 8), in = r.At(0, 64);
    const auto count = static_cast<std::uintptr_t>(round % 3 + 1);
    for (std::uintptr_t i = 0; i < count; ++i) ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    std::atomic<int> done{0};
    std::jthread other([&] {
      for (std::uintptr_t i = 0; i < count; ++i) ASSERT_EQ(b->Next().status, StatusCode::kSuccess);
      b->qp->Disconnect(std::chrono::seconds(10), [&](const Status& s) { done += s.ok() ? 1 : 100; });
    });
    // In half of the rounds one more Send than receives, which is not received.
    const std::uintptr_t sends = count + static_cast<std::uintptr_t>(round & 1);
    std::uintptr_t posted = 0;
    while (posted < sends && a->qp->Send(Tag(posted), {&out, 1}, 0).ok()) ++posted;
    EXPECT_GE(posted, 1u);
    for (std::uintptr_t i = 0; i < posted; ++i) {
      const Completion sent = a->Next();
      ASSERT_EQ(sent.request_context, Tag(i)) << round;
      ASSERT_EQ(sent.status, i < count ? StatusCode::kSuccess : StatusCode::kCanceled) << round << " " << i;
    }
    other.join();
    ASSERT_TRUE(b->Until([&] { return done != 0; })) << round;
    ASSERT_EQ(done, 1);
    ASSERT_TRUE(a->Until([&] { return a->closed == 1; }));
    ASSERT_EQ(a->reason, DisconnectReason::kPeerDisconnected);
  }
}

// The sender abandoned a Send: data behind it counts, and the goodbye is reported at once.
TEST_P(EndTest, AbandonedSendHidesNoLaterData) {
  if (foreign())
    GTEST_SKIP() << "a foreign peer's Send may be complete at its sender, and waits for a receive";
  for (int round = 0; round < 50; ++round) {
    Connect({.rnr_timeout = 3 * kPatience, .max_ulpdu = 4096});
    Memory mine(*a, 65536, buffers()), theirs(*b, 65536, false);
    mine.Fill(static_cast<unsigned>(round));
    // A Send of one frame or piece, or of several. With the following data it fits into the ring and the
    // socket.
    Sge out = mine.At(0, round % 2 == 0 ? 8 : 18000), all = theirs.At(0, 4096), in = theirs.At(0, 64);
    for (int i = 0; i <= round % 3; ++i) ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
    Sge room = mine.At(0, 64);
    ASSERT_TRUE(a->qp->Receive(Tag(7), {&room, 1}).ok());
    // When the answer has arrived, the Send before it is held.
    ASSERT_TRUE(b->qp->Send(Tag(1), {&in, 1}, 0).ok());
    ASSERT_EQ(a->Next().request_context, Tag(7));
    ASSERT_TRUE(b->qp->Read(Tag(2), {&all, 1}, mine.Address(), mine.token(), 0).ok());
    ASSERT_TRUE(a->qp->Flush().ok());
    for (int i = 0; i <= round % 3; ++i) ASSERT_EQ(a->Next().status, StatusCode::kCanceled);
    std::promise<Status> done;
    a->qp->Disconnect(kPatience, [&](Status s) { done.set_value(std::move(s)); });
    EXPECT_TRUE(b->Until([&] { return b->closed == 1; }));
    EXPECT_EQ(b->reason, DisconnectReason::kPeerDisconnected);
    const Completion sent = b->Next();
    EXPECT_EQ(sent.request_context, Tag(1));
    EXPECT_EQ(sent.status, StatusCode::kSuccess) << "it was received";
    EXPECT_EQ(b->Next().request_context, Tag(2));
    EXPECT_TRUE(done.get_future().get().ok());
    EXPECT_EQ(b->counters.rx_sends.load(), 0u);
  }
}

TEST_P(EndTest, ReadsThatArrivedAreAnsweredBeforeTheGoodbye) {
  constexpr std::size_t kSize = 8 << 20;
  for (int round = 0; round < 20; ++round) {
    Connect();
    Memory mine(*a, kSize, false), theirs(*b, kSize, false);
    theirs.Fill(static_cast<unsigned>(round));
    Sge all = mine.At(0, kSize);
    ASSERT_TRUE(a->qp->Read(nullptr, {&all, 1}, theirs.Address(), theirs.token(), 0).ok());
    // Disconnects only when a part of the answer proves that the request has arrived.
    ASSERT_TRUE(b->Until([&] { return a->counters.rx_bytes.load() != 0; }));
    std::promise<Status> done;
    b->qp->Disconnect(std::chrono::seconds(10), [&](Status s) { done.set_value(std::move(s)); });
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess) << round;
    EXPECT_EQ(std::memcmp(mine.data, theirs.data, kSize), 0);
    EXPECT_TRUE(done.get_future().get().ok());
  }
}

// Both sides poll, then sleep; the progress thread alone must report the end.
TEST_P(EndTest, ShortConnectionsAlwaysEnd) {
  constexpr int kConnections = 1500;
  constexpr std::size_t kDeep = 24;
  a = std::make_unique<End>();
  b = std::make_unique<End>();
  HandOffs both;
  Meeting meeting;
  std::atomic<bool> failed{false}, over{false};
  // Each connection takes some ten switches between threads, which are slow on a busy host.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto run = [&](End& self, bool active) {
    Memory m(self, 65536, buffers());
    for (int i = 0; i < kConnections && !failed && !over; ++i) {
      if (active) both = MakeHandOffs(GetParam());
      auto seen = std::make_shared<std::promise<void>>();
      std::future<void> closed = seen->get_future();
      QpOptions options = self.Options();
      options.on_peer_closed = [seen](DisconnectReason, const Status&) { seen->set_value(); };
      auto qp = self.device->CreateQueuePair(options).value();
      Sge in = m.At(0, 64), out = m.At(4096, 16);
      const std::size_t count = static_cast<std::size_t>(i * 7) % kDeep + 1;
      for (std::size_t n = 0; n < count; ++n) ASSERT_TRUE(qp->Receive(nullptr, {&in, 1}).ok());
      meeting.Arrive(active);
      bool good = qp->Attach(std::move(active ? both.active : both.passive)).ok();
      const bool goes_first = active == (i % 3 != 0);
      for (std::size_t n = 0; n < count; ++n) good = good && qp->Send(nullptr, {&out, 1}, 0).ok();
      // All completions of both directions; from here on no thread polls.
      good = good && PollFor(*self.cq, 2 * count);
      if (!good) failed = true;
      meeting.Arrive(active);
      if (failed) break;
      std::promise<Status> said;
      std::future<Status> finished = said.get_future();
      if (!goes_first && i % 5 != 0 && closed.wait_for(kPatience) != std::future_status::ready) failed = true;
      if (!failed) {
        qp->Disconnect(kPatience, [&](Status s) { said.set_value(std::move(s)); });
        if (finished.wait_for(kPatience + ms(5000)) != std::future_status::ready || !finished.get().ok()) {
          failed = true;
        }
      }
      EXPECT_FALSE(failed) << "connection " << i << (active ? " active" : " passive");
      qp->Drop();
      if (active && std::chrono::steady_clock::now() > end) over = true;
      meeting.Arrive(active);
    }
  };
  std::thread left([&] { run(*a, true); }), right([&] { run(*b, false); });
  left.join();
  right.join();
}

// Requests of a stream are gathered while the application polls, which may stop at any moment.
TEST_P(EndTest, NoRequestStaysUnsentWhenPollingStops) {
  Connect({.rnr_timeout = std::chrono::seconds(30)});
  Memory m(*a, 4096, buffers()), r(*b, 4096, buffers());
  Sge out = m.At(0, 8), in = r.At(0, 64);
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t flags = round % 2 == 0 ? 0u : std::uint32_t{kOpSilentSuccess};
    const Time until = In(ms(round % 3));
    Completion none;
    do {
      EXPECT_EQ(a->cq->Poll({&none, 1}), 0u);
    } while (Time(std::chrono::steady_clock::now()) < until);
    const std::uintptr_t count = static_cast<std::uintptr_t>(round) % 60 + 1;
    for (std::uintptr_t i = 0; i < count; ++i) ASSERT_TRUE(b->qp->Receive(Tag(i), {&in, 1}).ok());
    for (std::uintptr_t i = 0; i < count; ++i) ASSERT_TRUE(a->qp->Send(Tag(i), {&out, 1}, flags).ok());
    for (std::uintptr_t i = 0; i < count; ++i) ASSERT_EQ(b->Next().request_context, Tag(i));
    for (std::uintptr_t i = 0; i < count && flags == 0; ++i) ASSERT_EQ(a->Next().request_context, Tag(i));
  }
}

TEST_P(EndTest, SleeperDoesNotHideTheEnd) {
  Connect();
  Memory m(*a, 64, buffers());
  Sge in = m.At(0, 64);
  std::atomic<bool> sleeps{false};
  std::jthread sleeper([&] {
    sleeps = true;
    EXPECT_TRUE(a->cq->Wait(In(2 * kPatience)).ok());
  });
  // The sleeper usually sleeps by now.
  ASSERT_TRUE(a->Until([&] { return sleeps.load(); }));
  const Time start = std::chrono::steady_clock::now();
  while (Time(std::chrono::steady_clock::now()) < start + ms(5)) std::this_thread::yield();
  a->qp->Drop();
  EXPECT_TRUE(b->Until([&] { return b->closed == 1; }));
  ASSERT_TRUE(a->qp->Receive(nullptr, {&in, 1}).ok());  // Canceled at once: its completion ends the sleep.
  sleeper.join();
}

}  // namespace
}  // namespace nd::provider::soft
