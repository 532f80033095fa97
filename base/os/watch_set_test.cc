// SPDX-License-Identifier: Apache-2.0
#include "base/os/watch_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/fd_lane.h"
#include "base/os/accept.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "base/os/wake_event.h"

namespace nd::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr auto kRemoved = WatchSet::Until::kRemoved, kReported = WatchSet::Until::kReported;

class WatchSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeStreamPair(&stream_, &stream_peer_, /*blocking=*/false));
    ASSERT_TRUE(MakeSeqpacketPair(&lane_, &lane_peer_).ok());
  }
  // The readiness that the set reports for `tag`; 0: none within the time.
  std::uint32_t Take(std::uint64_t tag, Duration timeout) {
    WatchSet::Ready ready[WatchSet::kMostReady];
    const std::size_t count = set_.Take(ready, timeout);
    for (std::size_t i = 0; i < count; ++i) {
      if (ready[i].tag == tag) return ready[i].ready;
    }
    return 0;
  }

  WatchSet set_;
  WakeEvent event_;
  UniqueFd stream_, stream_peer_, lane_, lane_peer_;
};

TEST_F(WatchSetTest, LastingConditionIsReportedUntilItIsGone) {
  const struct {
    int fd;
    std::function<void()> cause, end;
  } kinds[] = {
      {event_.handle(), [&] { event_.Set(); }, [&] { event_.Clear(); }},
      {stream_.get(), [&] { EXPECT_EQ(Send(stream_peer_.get(), "x", 1), 1); },
       [&] {
         char byte;
         EXPECT_EQ(Receive(stream_.get(), &byte, 1), 1);
       }},
      {lane_.get(), [&] { EXPECT_EQ(Send(lane_peer_.get(), "x", 1), 1); },
       [&] {
         char byte;
         EXPECT_EQ(Receive(lane_.get(), &byte, 1), 1);
       }},
  };
  for (const auto& kind : kinds) {
    ASSERT_TRUE(set_.Add(kind.fd, kReadable, 7, kRemoved));
    EXPECT_EQ(Take(7, milliseconds(10)), 0u);
    for (int i = 0; i < 3; ++i) {
      kind.cause();
      EXPECT_EQ(Take(7, seconds(10)), kReadable);
      EXPECT_EQ(Take(7, seconds(10)), kReadable);
      kind.end();
      EXPECT_EQ(Take(7, milliseconds(10)), 0u);
    }
    set_.Remove(kind.fd);
    kind.cause();
    EXPECT_EQ(Take(7, milliseconds(10)), 0u);
  }
}

TEST_F(WatchSetTest, ReportedDescriptorIsWatchedAgainAfterAChangeOnly) {
  ASSERT_TRUE(set_.Add(stream_.get(), kReadable, 1, kReported));
  ASSERT_EQ(Send(stream_peer_.get(), "x", 1), 1);
  EXPECT_EQ(Take(1, seconds(10)), kReadable);
  EXPECT_EQ(Take(1, milliseconds(10)), 0u);
  ASSERT_TRUE(set_.Change(stream_.get(), kReadable | kWritable, 2, kReported));
  EXPECT_EQ(Take(2, seconds(10)), kReadable | kWritable);
}

TEST_F(WatchSetTest, HangUpIsReportedUnasked) {
  ASSERT_TRUE(set_.Add(stream_.get(), kPeerFinished, 1, kReported));
  ASSERT_TRUE(set_.Add(lane_.get(), 0, 2, kReported));
  stream_peer_.reset();
  EXPECT_NE(Take(1, seconds(10)) & kHungUp, 0u);
  lane_peer_.reset();
  EXPECT_NE(Take(2, seconds(10)) & kHungUp, 0u);
}

// A set of Wine takes the error of the socket when it reports the reset.
TEST_F(WatchSetTest, ReceiveTellsAResetAfterTheSetAndAMereEndOtherwise) {
  const UniqueFd listener = ListenTcp(Address::V4({127, 0, 0, 1}, 0), 8);
  ASSERT_TRUE(listener);
  for (const bool reset : {true, false}) {
    Dialled peer =
        ConnectTcp("127.0.0.1", LocalAddress(listener.get()).port(), SystemClock().Now() + seconds(10));
    ASSERT_TRUE(peer.socket) << peer.reason;
    Watched waiting{listener.get(), kReadable};
    ASSERT_EQ(Wait({&waiting, 1}, seconds(10)), 1);
    const Accepted accepted = Accept(listener.get());
    ASSERT_TRUE(accepted.fd);
    const int fd = accepted.fd.get();
    ASSERT_TRUE(set_.Add(fd, kReadable, 7, kRemoved));
    EXPECT_EQ(Take(7, milliseconds(10)), 0u);
    ResetOnClose(peer.socket.get(), reset);
    peer.socket.reset();
    EXPECT_NE(Take(7, seconds(10)) & kReadable, 0u);
    EXPECT_EQ(StateOfTcp(fd), reset ? TcpState::kClosed : TcpState::kPeerFinished);
    char byte;
    errno = 0;
    EXPECT_EQ(Receive(fd, &byte, 1), reset ? -1 : 0);
    EXPECT_EQ(errno, reset ? ECONNRESET : 0);
    set_.Remove(fd);
  }
}

TEST_F(WatchSetTest, ClosedDescriptorIsNotWatchedAndItsNumberIsFree) {
  ASSERT_TRUE(set_.Add(lane_.get(), kReadable, 1, kRemoved));
  ASSERT_EQ(Send(lane_peer_.get(), "x", 1), 1);
  const int number = lane_.get();
  lane_.reset();
  lane_peer_.reset();
  EXPECT_EQ(Take(1, milliseconds(10)), 0u);
  ASSERT_TRUE(MakeSeqpacketPair(&lane_, &lane_peer_).ok());
  const int again = lane_.get() == number ? lane_.get() : lane_peer_.get();
  ASSERT_EQ(again, number);
  EXPECT_TRUE(set_.Add(again, kReadable, 2, kRemoved));
  EXPECT_EQ(Take(2, milliseconds(10)), 0u);
}

TEST_F(WatchSetTest, DescriptorThatIsAddedWhileItIsClosedIsNotWatched) {
  std::atomic<int> fd = -1, added = 0;
  std::thread adds([&] {
    for (int next; (next = fd.load()) != -2; ++added) {
      if (next < 0 || !set_.Add(next, kReadable, 7, kRemoved)) std::this_thread::yield();
    }
  });
  for (int round = 0; round < 300; ++round) {
    auto event = std::make_unique<WakeEvent>();
    event->Set();
    fd = event->handle();
    for (const int before = added; added == before && round % 2 == 0;) std::this_thread::yield();
    event.reset();
    // An attempt that began before the end of the descriptor is over.
    fd = -1;
    for (const int before = added; added < before + 2;) std::this_thread::yield();
    EXPECT_EQ(Take(7, {}), 0u) << "in round " << round;
  }
  fd = -2;
  adds.join();
}

TEST_F(WatchSetTest, SetIsReadableWhileItsDescriptorsAreReady) {
  WatchSet outer;
  ASSERT_TRUE(set_.Add(stream_.get(), kReadable, 1, kReported));
  ASSERT_TRUE(set_.Add(event_.handle(), kReadable, 2, kRemoved));
  ASSERT_TRUE(outer.Add(set_.handle(), kReadable, 3, kRemoved));
  WatchSet::Ready ready[WatchSet::kMostReady];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(outer.Take(ready, milliseconds(10)), 0u);
    event_.Set();
    ASSERT_EQ(outer.Take(ready, seconds(10)), 1u);
    EXPECT_EQ(ready[0].tag, 3u);
    EXPECT_EQ(Take(2, Duration::zero()), kReadable);
    ASSERT_EQ(outer.Take(ready, seconds(10)), 1u);
    event_.Clear();
    EXPECT_EQ(Take(2, Duration::zero()), 0u);
  }
  ASSERT_EQ(Send(stream_peer_.get(), "x", 1), 1);
  ASSERT_EQ(outer.Take(ready, seconds(10)), 1u);
  EXPECT_EQ(Take(1, Duration::zero()), kReadable);
  Watched wait[] = {{set_.handle()}};
  EXPECT_EQ(Wait(wait, milliseconds(10)), 0);
}

TEST_F(WatchSetTest, SetIsNotReadableForAConditionThatIsGone) {
  ASSERT_TRUE(set_.Add(event_.handle(), kReadable, 1, kRemoved));
  ASSERT_TRUE(set_.Add(lane_.get(), kReadable, 2, kRemoved));
  Watched wait[] = {{set_.handle()}};
  for (int i = 0; i < 3; ++i) {
    event_.Set();
    EXPECT_EQ(Wait(wait, seconds(10)), 1);
    event_.Clear();
    EXPECT_EQ(Wait(wait, Duration::zero()), 0);
    ASSERT_EQ(Send(lane_peer_.get(), "x", 1), 1);
    EXPECT_EQ(Wait(wait, seconds(10)), 1);
    char byte;
    EXPECT_EQ(Receive(lane_.get(), &byte, 1), 1);
    EXPECT_EQ(Wait(wait, Duration::zero()), 0);
  }
  for (int i = 0; i < 100; ++i) {
    event_.Set();
    EXPECT_EQ(Wait(wait, Duration::zero()), 1) << "at once";
    event_.Clear();
  }
  event_.Set();
  EXPECT_EQ(Take(1, seconds(10)), kReadable);
}

TEST_F(WatchSetTest, DescriptorAddedByAnotherThreadEndsTheWait) {
  event_.Set();
  std::thread adder([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(set_.Add(event_.handle(), kReadable, 5, kReported));
  });
  EXPECT_EQ(Take(5, seconds(10)), kReadable);
  adder.join();
}

TEST_F(WatchSetTest, WaitReportsEachKindAndTheEntriesThatAreNotReady) {
  Watched wait[] = {{-1}, {event_.handle()}, {stream_.get(), kReadable | kWritable}, {lane_.get()}};
  ASSERT_EQ(Wait(wait, seconds(10)), 1);
  EXPECT_EQ(wait[2].ready, kWritable);
  event_.Set();
  ASSERT_EQ(Send(lane_peer_.get(), "x", 1), 1);
  Watched both[] = {{event_.handle()}, {lane_.get()}, {stream_.get()}};
  ASSERT_EQ(Wait(both, seconds(10)), 2);
  EXPECT_EQ(both[0].ready, kReadable);
  EXPECT_EQ(both[1].ready, kReadable);
  EXPECT_EQ(both[2].ready, 0u);
}

}  // namespace
}  // namespace nd::os
