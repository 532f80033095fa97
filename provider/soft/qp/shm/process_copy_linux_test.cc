// SPDX-License-Identifier: Apache-2.0
// Writes and Reads of ordinary memory of the peer by a call of the system: no thread of the peer takes part,
// the checks and the order are those of the ring, and only the process of the connection is touched.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include "base/lane_sender.h"
#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/shm/peer_process.h"
#include "provider/soft/qp/shm/ring_pace.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

constexpr std::size_t kLarge = 64 * 1024;
constexpr std::uint32_t kAllRights =
    kAllowRemoteRead | kAllowRemoteWrite | kAllowLocalWrite | kRdmaReadSink | kAllowRemoteAtomic;

// The application of b does nothing, and b has no progress thread: what happens, a does.
struct Pair {
  Pair() {
    HandOffs both = MakeHandOffs(Link::kShared);
    segment = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    EXPECT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
    EXPECT_TRUE(a.qp->Attach(std::move(both.active)).ok());
    Acquaint(a, b);
    mine.Fill(1);
    BLooksAsleep(true);
  }
  // What a sees. What a publishes in the ring wakes b.
  void BLooksAsleep(bool asleep) {
    reinterpret_cast<Segment*>(segment.data())->side[1].armed = asleep ? 1 : 0;
  }
  // The next completion of a, if it comes without b.
  StatusCode Alone() {
    Completion done;
    for (const Time end = In(ms(50)); Time(std::chrono::steady_clock::now()) < end;) {
      if (a.cq->Poll({&done, 1}) == 1) return done.status;
    }
    return StatusCode::kDeviceBusy;
  }
  bool BSleeps() const { return reinterpret_cast<Segment*>(segment.data())->side[1].armed.load() != 0; }
  bool Untouched() const {
    return std::all_of(theirs.heap.begin(), theirs.heap.end(),
                       [](std::byte byte) { return byte == std::byte{0}; });
  }

  Mapping segment;
  End a, b{{}, false};
  Memory mine{a, 4 << 20, false, kAllRights}, theirs{b, 4 << 20, false, kAllRights};
};

class ProcessCopyTest : public ::testing::Test {
 protected:
  Status Write(std::size_t at, std::size_t size) {
    const Sge from = mine_.At(at, size);
    return a_.qp->Write(Tag(1), {&from, 1}, theirs_.Address(at), theirs_.token(), 0);
  }
  Status Read(std::size_t size) {
    const Sge to = mine_.At(0, size);
    return a_.qp->Read(Tag(2), {&to, 1}, theirs_.Address(), theirs_.token(), 0);
  }
  StatusCode Alone() { return pair_.Alone(); }
  StatusCode WithB() {
    Completion done;
    for (const Time end = In(ms(5000)); Time(std::chrono::steady_clock::now()) < end;) {
      if (a_.cq->Poll({&done, 1}) == 1) return done.status;
      Completion none;
      b_.cq->Poll({&none, 1});
    }
    return StatusCode::kDeviceBusy;
  }
  bool Same(std::size_t at, std::size_t size) const {
    return std::memcmp(mine_.data + at, theirs_.data + at, size) == 0;
  }

  Pair pair_;
  End &a_ = pair_.a, &b_ = pair_.b;
  Memory &mine_ = pair_.mine, &theirs_ = pair_.theirs;
};

TEST_F(ProcessCopyTest, LargeRequestsNeedNoThreadOfThePeer) {
  for (const std::size_t size : {kLarge, std::size_t{kCopyFrom}, std::size_t{4} << 20}) {
    mine_.Fill(static_cast<unsigned>(size));
    ASSERT_TRUE(Write(0, size).ok());
    EXPECT_EQ(Alone(), StatusCode::kSuccess);
    EXPECT_TRUE(Same(0, size));
    std::memset(mine_.data, 0, size);
    ASSERT_TRUE(Read(size).ok());
    EXPECT_EQ(Alone(), StatusCode::kSuccess);
    EXPECT_TRUE(Same(0, size));
    EXPECT_NE(mine_.data[1], std::byte{0});
  }
  EXPECT_EQ(a_.counters.tx_writes.load(), 1 + 3u) << "the first one was that of Acquaint()";
  EXPECT_EQ(b_.counters.rx_writes.load(), 1u) << "the target takes no part";
}

TEST_F(ProcessCopyTest, SmallRequestsToASleepingPeerNeedNoThreadOfIt) {
  pair_.BLooksAsleep(false);
  auto sleeper = std::async(std::launch::async, [&] { return b_.cq->Wait(In(ms(500))).code(); });
  ASSERT_TRUE(a_.Until([&] { return pair_.BSleeps(); }));
  ASSERT_TRUE(Write(0, 8).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_TRUE(Same(0, 8));
  std::this_thread::sleep_for(ms(1));  // The next one is not of a stream.
  ASSERT_TRUE(Read(8).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_EQ(sleeper.get(), StatusCode::kIoTimeout);
  EXPECT_EQ(b_.counters.rx_writes.load() + b_.counters.rx_reads.load(), 1u) << "that of Acquaint()";
}

TEST_F(ProcessCopyTest, APeerThatPollsTakesRequestsOutOfTheRing) {
  pair_.BLooksAsleep(false);
  ASSERT_TRUE(Write(0, kLarge).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_EQ(b_.counters.rx_writes.load(), 1 + 1u);
}

// It did not sleep, and yet took long for the request before.
TEST_F(ProcessCopyTest, APeerThatWasSlowIsNotWaitedForAgain) {
  pair_.BLooksAsleep(false);
  ASSERT_TRUE(Write(0, 8).ok());
  std::this_thread::sleep_for(ms(1));
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  pair_.BLooksAsleep(false);
  std::this_thread::sleep_for(ms(1));
  ASSERT_TRUE(Write(64, 8).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_TRUE(Same(64, 8));
}

TEST_F(ProcessCopyTest, ListsAreCopiedInTheirOrder) {
  std::array<Sge, kMaxSge> list;
  std::size_t at = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::size_t size = i == 3 ? 0 : 1000 + 517 * i;
    list[i] = mine_.At(at, size);
    at += size;
  }
  ASSERT_TRUE(a_.qp->Write(Tag(1), list, theirs_.Address(), theirs_.token(), 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_TRUE(Same(0, at));
}

// The later one wins where they overlap.
TEST_F(ProcessCopyTest, ALargeWriteDoesNotOvertakeASmallOneInTheRing) {
  const std::byte other{0x5A};
  mine_.data[8] = mine_.data[kLarge] = other;
  pair_.BLooksAsleep(false);
  ASSERT_TRUE(Write(8, 8).ok());
  pair_.BLooksAsleep(true);
  mine_.data[8] = std::byte{0};  // The ring has the bytes already.
  ASSERT_TRUE(Write(0, kLarge).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_TRUE(pair_.Untouched());
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_TRUE(Same(0, kLarge));
}

TEST_F(ProcessCopyTest, AReadDoesNotOvertakeASend) {
  const Sge out = mine_.At(0, 8), in = theirs_.At(0, 8);
  ASSERT_TRUE(b_.qp->Receive(Tag(1), {&in, 1}).ok());
  ASSERT_TRUE(a_.qp->Send(Tag(1), {&out, 1}, 0).ok());
  pair_.BLooksAsleep(true);
  const Sge to = mine_.At(kLarge, kLarge);
  ASSERT_TRUE(a_.qp->Read(Tag(2), {&to, 1}, theirs_.Address(), theirs_.token(), 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine_.data, mine_.data + kLarge, 8), 0) << "the Read has seen the Send";
}

TEST_F(ProcessCopyTest, ImmediateDataFollowTheBytes) {
  const Sge from = mine_.At(0, kLarge);
  ASSERT_TRUE(b_.qp->Receive(Tag(7), {}).ok());
  ASSERT_TRUE(a_.qp->WriteWithImmediate(Tag(1), {&from, 1}, theirs_.Address(), theirs_.token(), 42, 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_TRUE(Same(0, kLarge));
  Completion got;
  while (b_.cq->Poll({&got, 1}) == 0) {
  }
  EXPECT_EQ(got.immediate, 42u);
  EXPECT_EQ(got.bytes_transferred, kLarge);
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
}

// A request that the peer does not allow is left to the judgement of the peer.
TEST(ProcessCopyRules, NothingIsCopiedAgainstThem) {
  struct Target {
    std::uint64_t address;
    std::uint32_t token;
  };
  const auto writes = [](const char* rule, const auto& name) {
    Pair pair;
    const auto target = name(pair);
    const Sge from = pair.mine.At(0, kLarge);
    ASSERT_TRUE(pair.a.qp->Write(Tag(1), {&from, 1}, target.address, target.token, 0).ok()) << rule;
    const bool allowed = *rule == '\0';
    EXPECT_EQ(pair.Alone(), allowed ? StatusCode::kSuccess : StatusCode::kDeviceBusy) << rule;
    EXPECT_EQ(pair.Untouched(), !allowed) << rule;
  };
  const auto plain = [](Pair& pair) { return Target{pair.theirs.Address(), pair.theirs.token()}; };
  writes("", plain);
  writes("another token", [&](Pair& pair) { return Target{plain(pair).address, plain(pair).token ^ 1}; });
  writes("behind the end", [&](Pair& pair) {
    return Target{pair.theirs.Address(pair.theirs.size - kLarge + 1), plain(pair).token};
  });
  writes("before the beginning", [&](Pair& pair) {
    return Target{plain(pair).address - 1, plain(pair).token};
  });
  writes("a right of the queue pair", [&](Pair& pair) {
    EXPECT_TRUE(pair.b.qp->SetProtection({.remote_access = kAllowRemoteRead}).ok());
    return plain(pair);
  });
  writes("another domain", [&](Pair& pair) {
    EXPECT_TRUE(pair.b.qp->SetProtection({.domain = 7, .receive_domain = 7}).ok());
    return plain(pair);
  });
  writes("a right of the region", [&](Pair& pair) {
    EXPECT_TRUE(pair.theirs.region->Change(pair.theirs.data, pair.theirs.size, kAllowRemoteRead, {}).ok());
    return plain(pair);
  });
  std::shared_ptr<MemoryWindow> window;
  writes("a window, which the ring serves", [&](Pair& pair) {
    window = pair.b.device->CreateWindow().value();
    EXPECT_TRUE(pair.b.qp
                    ->BindWindow(Tag(1), *pair.theirs.region, *window, pair.theirs.data, pair.theirs.size,
                                 kOpAllowWrite)
                    .ok());
    return Target{plain(pair).address, window->remote_token()};
  });
  window.reset();
}

TEST_F(ProcessCopyTest, TheRegionOfADomainIsReached) {
  ASSERT_TRUE(b_.qp->SetProtection({.domain = 7, .receive_domain = 7}).ok());
  ASSERT_TRUE(
      theirs_.region->Change(theirs_.data, theirs_.size, kAllRights, {.domain = 7, .remote_base = 4096})
          .ok());
  const Sge from = mine_.At(0, kLarge);
  ASSERT_TRUE(a_.qp->Write(Tag(1), {&from, 1}, 4096 + 64, theirs_.token(), 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine_.data, theirs_.data + 64, kLarge), 0);
}

TEST_F(ProcessCopyTest, ItCanBeTurnedOff) {
  Tuning off;
  off.process_access = false;
  for (const bool here : {true, false}) {
    End a(here ? off : Tuning{}), b(here ? Tuning{} : off, false);
    HandOffs both = MakeHandOffs(Link::kShared);
    Mapping segment = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
    ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
    Memory from(a, kLarge, false), to(b, kLarge, false);
    reinterpret_cast<Segment*>(segment.data())->side[1].armed = 1;
    const Sge all = from.At(0, kLarge);
    ASSERT_TRUE(a.qp->Write(Tag(1), {&all, 1}, to.Address(), to.token(), 0).ok());
    Completion none;
    for (const Time end = In(ms(20)); Time(std::chrono::steady_clock::now()) < end;) {
      EXPECT_EQ(a.cq->Poll({&none, 1}), 0u);
    }
  }
}

// A peer whose pages are not there: the ring takes over. The peer is this test.
TEST(ProcessCopyHostile, ATableThatNamesNoMemoryLeadsToTheRing) {
  HandOffs both = MakeHandOffs(Link::kShared);
  Mapping segment = Mapping::Map(both.passive.fds[0].get(), kSegmentSize, true).value();
  auto& layout = *reinterpret_cast<Segment*>(segment.data());
  layout.side[1].segment = reinterpret_cast<std::uintptr_t>(segment.data());
  const UniqueFd table_fd = CreateSealedMemfd("test-table", kRegionTableSize).value();
  Mapping table = Mapping::Map(table_fd.get(), kRegionTableSize, true).value();
  const std::uint32_t stag = 0x12345678;
  auto& entry = reinterpret_cast<RegionEntry*>(table.data())[SlotOf(stag)];
  // The second page is not there.
  auto* pages = static_cast<std::byte*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(pages + 4096, 4096);
  entry.access = kAllowRemoteWrite | kAllowRemoteRead;
  entry.base = reinterpret_cast<std::uintptr_t>(pages);
  entry.length = ~std::uint64_t{0} - entry.base;
  entry.stag = stag;
  const ShareMessage message{.kind = ShareMessage::kRegionTable};
  const int fd = table_fd.get();
  ASSERT_TRUE(
      SendInMyName(both.passive.fds[1].get(), std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok());
  End end;
  ASSERT_TRUE(end.qp->Attach(std::move(both.active)).ok());
  layout.side[1].armed = 1;
  Memory mine(end, kLarge, false, kAllRights);
  const Sge from = mine.At(0, kLarge);
  const auto address = reinterpret_cast<std::uintptr_t>(pages);
  ASSERT_TRUE(end.qp->Write(Tag(1), {&from, 1}, address, stag, 0).ok());
  ASSERT_TRUE(end.Until([&] { return layout.ring[0].slots[1].stamp.load() == 1; }));
  const Slot& slot = layout.ring[0].slots[1];  // Behind the announcement of the table.
  EXPECT_EQ(slot.kind, RecordKind::kWrite);
  EXPECT_EQ(slot.address, address) << "from its beginning";
  EXPECT_EQ(end.closed.load(), 0);
  munmap(pages, 4096);
}

// Only the process that has the segment where it says is reached: not a program that took its place.
TEST(PeerProcessTest, AProcessWithoutTheSegmentIsNotTouched) {
  const UniqueFd fd = CreateSealedMemfd("test-segment", kSegmentSize).value();
  Mapping segment = Mapping::Map(fd.get(), kSegmentSize, true).value();
  auto& layout = *reinterpret_cast<Segment*>(segment.data());
  auto* target = static_cast<std::atomic<std::uint64_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int go[2], gone[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(gone), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    PeerProcess there(layout, 1, true);
    char c = 0;
    if (write(gone[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
    munmap(segment.data(), kSegmentSize);
    if (write(gone[1], &c, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char c = 0;
  PeerProcess here(layout, 0, true);
  EXPECT_FALSE(here.reachable()) << "its number is not known";
  ASSERT_EQ(read(gone[0], &c, 1), 1);
  here.SetNumber(static_cast<std::uint32_t>(child));
  EXPECT_TRUE(here.reachable());
  std::uint64_t value = 5;
  const os::PieceHere piece{&value, sizeof value};
  const auto address = reinterpret_cast<std::uintptr_t>(target);
  EXPECT_EQ(here.Write({&piece, 1}, address), sizeof value);
  EXPECT_EQ(target->load(), 5u);
  value = 6;
  ASSERT_EQ(write(go[1], &c, 1), 1);
  ASSERT_EQ(read(gone[0], &c, 1), 1);
  EXPECT_FALSE(here.Lives());
  EXPECT_EQ(here.Write({&piece, 1}, address), 0u);
  EXPECT_EQ(target->load(), 5u);
  EXPECT_FALSE(here.reachable());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : {go[0], go[1], gone[0], gone[1]}) close(end);
  munmap(target, 4096);
}

TEST(PeerProcessTest, AnotherSegmentAtThePlaceIsNotThePeer) {
  const UniqueFd fd = CreateSealedMemfd("test-segment", kSegmentSize).value();
  const UniqueFd other_fd = CreateSealedMemfd("test-segment", kSegmentSize).value();
  Mapping segment = Mapping::Map(fd.get(), kSegmentSize, true).value();
  Mapping other = Mapping::Map(other_fd.get(), kSegmentSize, true).value();
  auto& layout = *reinterpret_cast<Segment*>(segment.data());
  PeerProcess here(layout, 0, true);
  layout.side[1].segment = reinterpret_cast<std::uintptr_t>(other.data());
  here.SetNumber(static_cast<std::uint32_t>(getpid()));
  EXPECT_FALSE(here.reachable());
}

// A peer that was stopped in the middle of a copy may finish it when it goes on.
class StoppedPeerTest : public ::testing::Test {
 protected:
  StoppedPeerTest() {
    HandOffs both = MakeHandOffs(Link::kShared);
    segment_ = Mapping::Map(both.passive.fds[0].get(), kSegmentSize, true).value();
    socket_ = std::move(both.passive.fds[1]);
    control().segment = reinterpret_cast<std::uintptr_t>(segment_.data());
    const UniqueFd table = CreateSealedMemfd("test-table", kRegionTableSize).value();
    const ShareMessage message{.kind = ShareMessage::kRegionTable};
    const int fd = table.get();
    EXPECT_TRUE(SendInMyName(socket_.get(), std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok());
    EXPECT_TRUE(end_.qp->Attach(std::move(both.active)).ok());
  }
  SideControl& control(int side = 1) { return reinterpret_cast<Segment*>(segment_.data())->side[side]; }
  Duration DeregisterWhileItCopiesFor(Duration time) {
    control().hazard = memory_.token();
    const Time start = std::chrono::steady_clock::now();
    auto goes_on = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(time);
      control().hazard = 0;
    });
    EXPECT_TRUE(memory_.region->Deregister().ok());
    return std::chrono::steady_clock::now() - start;
  }

  End end_;
  Memory memory_{end_, 4096, false};
  Mapping segment_;
  UniqueFd socket_;
};

TEST_F(StoppedPeerTest, IsWaitedForAndKeepsItsConnection) {
  constexpr Duration kLong = kRevokePatience + ms(500);
  EXPECT_GE(DeregisterWhileItCopiesFor(kLong), kLong - ms(10));
  EXPECT_EQ(end_.closed.load(), 0);
}

TEST_F(StoppedPeerTest, IsWaitedForAfterTheEndOfItsConnection) {
  control().hazard = memory_.token();
  end_.qp->Drop();
  EXPECT_EQ(control(0).closed.load(), 1u);
  EXPECT_GE(DeregisterWhileItCopiesFor(ms(200)), ms(190));
}

TEST_F(StoppedPeerTest, ThatHasGoneIsNotWaitedFor) {
  control().hazard = memory_.token();
  segment_ = Mapping();  // Nothing is there any more.
  end_.qp->Drop();
  const Time start = std::chrono::steady_clock::now();
  EXPECT_TRUE(memory_.region->Deregister().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, kRevokePatience);
}

}  // namespace
}  // namespace nd::provider::soft
