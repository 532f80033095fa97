// SPDX-License-Identifier: Apache-2.0
// Peers that die, and children of fork(): this process must neither crash nor hang, and must report the
// cause.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "provider/soft/qp/drive/progress_thread.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

TEST(HostileHandOff, SegmentWithoutSealsIsRefused) {
  End end;
  HandOffs both = MakeHandOffs(Link::kShared);
  UniqueFd unsealed(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kSegmentSize), 0);
  HandOff bad;
  bad.record = both.passive.record;
  bad.fds.push_back(std::move(unsealed));
  bad.fds.push_back(os::Duplicate(both.passive.fds[1].get()));
  EXPECT_FALSE(end.qp->Attach(std::move(bad)).ok());
  EXPECT_TRUE(end.qp->Attach(std::move(both.passive)).ok());
}

class Death : public ::testing::TestWithParam<Link> {};
INSTANTIATE_TEST_SUITE_P(Links, Death, ::testing::Values(Link::kShared, Link::kIwarp),
                         [](const auto& c) { return NameOf(c.param); });

TEST_P(Death, KilledPeerIsReported) {
  HandOffs both = MakeHandOffs(GetParam());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    both.passive.fds.clear();
    End end;
    if (!end.qp->Attach(std::move(both.active)).ok()) _exit(1);
    [[maybe_unused]] const ssize_t n = write(ready[1], "x", 1);
    for (;;) pause();
  }
  both.active.fds.clear();
  End end;
  const Status attached = end.qp->Attach(std::move(both.passive));
  ASSERT_TRUE(attached.ok()) << attached.ToString();
  Memory r(end, 64, false);
  Sge in = r.At(0, 64);
  ASSERT_TRUE(end.qp->Receive(Tag(1), {&in, 1}).ok());
  char c;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(end.Next().status, StatusCode::kCanceled);
  EXPECT_TRUE(end.Until([&] { return end.closed == 1; }));
  EXPECT_EQ(end.reason.load(), DisconnectReason::kPeerProcessDied);
  close(ready[0]);
  close(ready[1]);
}

// The end of an application ends all its connections, and their peers have more urgent work than to unmap
// them.
TEST(LostConnection, ItsMemoryIsFreedLaterAndAtTheEndOfNoCall) {
  constexpr int kCount = 100;
  std::atomic<int> freed = 0, in_this_thread = 0;
  const std::thread::id caller = std::this_thread::get_id();
  for (int i = 0; i < kCount; ++i) {
    ProgressThread::Get()->FreeLater(std::shared_ptr<void>(&freed, [&](void*) {
      in_this_thread += std::this_thread::get_id() == caller ? 1 : 0;
      ++freed;
    }));
  }
  EXPECT_EQ(freed, 0);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (freed != kCount && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(ms(1));
  EXPECT_EQ(freed, kCount);
  EXPECT_EQ(in_this_thread, 0);
}

TEST(LostConnection, LossesWithoutEndKeepNoMemoryForEver) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const auto freed = std::make_shared<std::atomic<int>>(0);
  while (*freed == 0 && std::chrono::steady_clock::now() < until) {
    ProgressThread::Get()->FreeLater(std::shared_ptr<void>(nullptr, [freed](void*) { ++*freed; }));
    std::this_thread::sleep_for(ms(1));
  }
  EXPECT_GT(*freed, 0);
}

TEST(LostConnection, ItsSegmentIsUnmappedLaterAlthoughTheQueuePairStays) {
  const auto segments = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find("memfd:test-segment") != line.npos ? 1 : 0;
    return count;
  };
  const int before = segments();
  HandOffs both = MakeHandOffs(Link::kShared);
  End end;
  ASSERT_TRUE(end.qp->Attach(std::move(both.passive)).ok());
  EXPECT_EQ(segments(), before + 1);
  both.active.fds.clear();  // The socket of a peer that has gone.
  EXPECT_TRUE(end.Until([&] { return end.closed == 1; }));
  EXPECT_EQ(segments(), before + 1);
  EXPECT_TRUE(end.Until([&] { return segments() == before; }));
}

// A Send without a receive stops the stream, but its end is still reported.
TEST_P(Death, HeldSendDoesNotHideIt) {
  for (const bool sleeps : {false, true}) {
    HandOffs both = MakeHandOffs(GetParam());
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      both.passive.fds.clear();
      End end;
      if (!end.qp->Attach(std::move(both.active)).ok()) _exit(1);
      Memory m(end, 64, false);
      Sge out = m.At(0, 8);
      if (!end.qp->Send(nullptr, {&out, 1}, 0).ok()) _exit(1);
      [[maybe_unused]] const ssize_t n = write(ready[1], "x", 1);
      for (;;) pause();
    }
    both.active.fds.clear();
    End end({.rnr_timeout = 3 * kPatience});
    const Status attached = end.qp->Attach(std::move(both.passive));
    ASSERT_TRUE(attached.ok()) << attached.ToString();
    Memory m(end, 64, false);
    Sge out = m.At(0, 8);
    char c;
    ASSERT_EQ(read(ready[0], &c, 1), 1);
    Completion none;
    EXPECT_EQ(end.cq->Poll({&none, 1}), 0u);  // The Send is held from here on.
    // This Send is not answered either, because the child is stopped before it arrives.
    kill(child, SIGSTOP);
    ASSERT_TRUE(end.qp->Send(Tag(1), {&out, 1}, 0).ok());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (sleeps) {
      EXPECT_EQ(end.Next().status, StatusCode::kCanceled);
    }
    EXPECT_TRUE(end.Until([&] { return end.closed == 1; }));
    EXPECT_EQ(end.reason.load(), DisconnectReason::kPeerProcessDied);
    if (!sleeps) {
      EXPECT_EQ(end.Next().status, StatusCode::kCanceled);
    }
    close(ready[0]);
    close(ready[1]);
  }
}

TEST_P(Death, ForkedChildCannotUseTheParentsConnection) {
  End a, b;
  HandOffs both = MakeHandOffs(GetParam());
  ASSERT_TRUE(a.qp->Attach(std::move(both.active)).ok());
  ASSERT_TRUE(b.qp->Attach(std::move(both.passive)).ok());
  Memory m(a, 64, false), r(b, 64, false);
  Sge out = m.At(0, 8), in = r.At(0, 64);
  const pid_t child = fork();
  if (child == 0) {
    bool good = a.qp->Send(nullptr, {&out, 1}, 0).code() == StatusCode::kConnectionInvalid;
    good = good && a.qp->Flush().code() == StatusCode::kConnectionInvalid;
    good = good && a.cq->Wait(In(ms(10))).code() == StatusCode::kConnectionInvalid;
    Completion none;
    good = good && a.cq->Poll({&none, 1}) == 0;
    a.qp.reset();
    b.qp.reset();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(b.qp->Receive(nullptr, {&in, 1}).ok());
  ASSERT_TRUE(a.qp->Send(nullptr, {&out, 1}, 0).ok());
  EXPECT_EQ(b.Next().status, StatusCode::kSuccess);
  EXPECT_EQ(a.Next().status, StatusCode::kSuccess);
}

}  // namespace
}  // namespace nd::provider::soft
