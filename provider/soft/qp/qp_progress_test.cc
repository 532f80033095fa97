// SPDX-License-Identifier: Apache-2.0
// Who moves the data: the application that polls, the one that waits, or the background thread for one that
// sleeps elsewhere or does something else.
#include <poll.h>

#include <optional>
#include <thread>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

TEST_P(QpTest, OneSidedWhileTheTargetSleeps) {
  Connect();
  Memory mine = Mem(*a, 256 << 10), theirs = Mem(*b, 256 << 10);
  mine.Fill(5);
  // Nothing calls into b from here on; only its progress thread runs.
  Sge out = mine.At(0, 200000), in = mine.At(0, 200000);
  ASSERT_TRUE(a->qp->Write(nullptr, {&out, 1}, theirs.Address(), theirs.token(), 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  ASSERT_TRUE(a->qp->Read(nullptr, {&in, 1}, theirs.Address(), theirs.token(), 0).ok());
  EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 200000), 0);
}

TEST_P(QpTest, WithoutProgressThreadWaitDrives) {
  Connect(16, {}, false);
  Memory mine = Mem(*a, 1 << 20), theirs = Mem(*b, 1 << 20);
  mine.Fill(1);
  Sge out = mine.At(0, 1 << 20), in = theirs.At(0, 1 << 20);
  ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  std::thread other([&] { EXPECT_EQ(a->Next().status, StatusCode::kSuccess); });
  EXPECT_EQ(b->Next().status, StatusCode::kSuccess);
  if (!foreign()) {
    // The answer that a waits for needs one more look of b.
    Completion none;
    for (int i = 0; i < 100; ++i) b->cq->Poll({&none, 1});
  }
  other.join();
  EXPECT_EQ(std::memcmp(mine.data, theirs.data, 1 << 20), 0);
}

// What the progress thread puts off here it never comes back to by itself.
class PutOffTest : public QpTest {
 protected:
  void SetUp() override {
    Connect(16, {.rnr_timeout = std::chrono::hours(2), .put_off = std::chrono::hours(1)});
    ASSERT_TRUE(b->Until([&] { return b->counters.wakeups > 0; }));  // It watches.
    from.emplace(*a, 64, GetParam().shared_memory);
    to.emplace(*b, 64, GetParam().shared_memory);
  }
  void Send() {
    Sge out = from->At(0, 8), in = to->At(0, 8);
    ASSERT_TRUE(b->qp->Receive(nullptr, {&in, 1}).ok());
    ASSERT_TRUE(a->qp->Send(nullptr, {&out, 1}, 0).ok());
  }
  // Messages that b fetches by polling, for so long that the thread must notice.
  void Poll() {
    for (const Time end = In(std::chrono::milliseconds(20)); std::chrono::steady_clock::now() < end;) {
      Send();
      ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) == 1; }));
      ASSERT_TRUE(b->Until([&] { return b->cq->Poll({&got, 1}) + a->cq->Poll({&got, 1}) == 1; }));
    }
  }
  std::optional<Memory> from, to;
  Completion got;
};
INSTANTIATE_TEST_SUITE_P(Links, PutOffTest,
                         testing::Values(Case{Link::kShared, true}, Case{Link::kIwarp, false},
                                         Case{Link::kIwarpForeign, false}),
                         [](const auto& c) { return NameOf(c.param.link); });

TEST_P(PutOffTest, NotifyEndsThePollingThatTheThreadWaitedFor) {
  for (int i = 0; i < 10; ++i) {
    SCOPED_TRACE(i);
    Poll();
    ASSERT_EQ(b->cq->Poll({&got, 1}), 0u);
    ASSERT_TRUE(b->cq->Notify(NotifyType::kAny).ok());
    if (i % 2 == 0) {
      ASSERT_EQ(b->cq->Poll({&got, 1}), 0u);  // As everybody does who fears to miss one.
    }
    Send();
    pollfd ready{b->cq->handle(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 5000), 1) << "nobody fetched the message";
    b->cq->ConsumeNotification();
    ASSERT_EQ(b->cq->Poll({&got, 1}), 1u);
    EXPECT_EQ(a->Next().status, StatusCode::kSuccess);
  }
}

TEST_P(PutOffTest, WhoPollsOnAfterNotifyIsLeftAlone) {
  ASSERT_TRUE(b->cq->Notify(NotifyType::kErrors).ok());
  Poll();
  const std::uint64_t before = b->counters.wakeups;
  Poll();
  Poll();
  // Now and then the thread comes twice between two polls; not for each message.
  EXPECT_LT(b->counters.wakeups, before + 10);
}

TEST_P(QpTest, PollingAloneNoticesTheEnd) {
  Connect(16, {}, false);
  a->qp.reset();
  Completion none;
  ASSERT_TRUE(b->Until([&] {
    b->cq->Poll({&none, 1});
    return b->closed == 1;
  }));
}

TEST_P(QpTest, BothWaysAtOnceFromFourThreads) {
  Connect(16, {.rnr_timeout = std::chrono::seconds(30)});
  constexpr int kMessages = 3000;
  const auto run = [&](End& self) {
    Memory m(self, 65536, GetParam().shared_memory);
    int posted = 0, sent = 0, received = 0, flying = 0;
    Sge in = m.At(0, 16384);
    for (; posted < 64; ++posted) ASSERT_TRUE(self.qp->Receive(nullptr, {&in, 1}).ok());
    std::size_t seed = 1;
    while (sent < kMessages || received < kMessages || flying > 0) {
      while (sent < kMessages && flying < 32) {
        seed = seed * 1103515245 + 12345;
        Sge out = m.At(32768, seed % 9 == 0 ? 16384 : seed / 7 % 300);
        ASSERT_TRUE(self.qp->Send(nullptr, {&out, 1}, 0).ok());
        ++sent;
        ++flying;
      }
      const Completion done = self.Next();
      ASSERT_EQ(done.status, StatusCode::kSuccess);
      if (done.type == RequestType::kSend) {
        --flying;
        continue;
      }
      ++received;
      if (posted < kMessages) {
        ASSERT_TRUE(self.qp->Receive(nullptr, {&in, 1}).ok());
        ++posted;
      }
    }
  };
  std::thread left([&] { run(*a); }), right([&] { run(*b); });
  left.join();
  right.join();
}

TEST_P(QpTest, DeregisterDuringTraffic) {
  for (int round = 0; round < 10; ++round) {
    Connect();
    Memory mine = Mem(*a, 1 << 20);
    auto theirs = std::make_unique<Memory>(*b, 1 << 20, GetParam().shared_memory);
    const std::uint64_t address = theirs->Address();
    const std::uint32_t token = theirs->token();
    std::atomic<bool> wrote{false};
    std::thread writer([&] {
      for (bool failed = false; !failed; wrote = true) {
        Sge out = mine.At(0, 1 << 20);
        if (!a->qp->Write(nullptr, {&out, 1}, address, token, 0).ok()) break;
        failed = a->Next().status != StatusCode::kSuccess;
      }
      wrote = true;
    });
    while (!wrote && round != 0) std::this_thread::yield();
    ASSERT_TRUE(theirs->region->Deregister().ok());
    theirs.reset();  // Unmapped or freed: a late access would be a crash or a sanitizer report.
    writer.join();
  }
}

}  // namespace
}  // namespace nd::provider::soft
