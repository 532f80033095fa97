// SPDX-License-Identifier: Apache-2.0
// The barrier for the threads of this process, beside threads that end: the kernel forgets about a processor
// on which a thread has ended (sync.h). MEMBARRIER_CMD_GLOBAL_EXPEDITED in place of ProcessBarrier() fails
// here.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {
namespace {

// Returns false when there is no such processor.
bool StayOn(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

struct alignas(64) Word {
  std::uint32_t value = 0;
};

TEST(ProcessBarrier, ReachesAProcessorOnWhichAThreadHasEnded) {
  if (!RegisterProcessBarrier()) GTEST_SKIP() << "the kernel has no barrier for a process";
  // As long as it takes to fail some times with the other barrier.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  Word here, there;
  alignas(64) std::atomic<std::uint32_t> begun{0};
  alignas(64) std::atomic<std::uint32_t> done{0};
  std::atomic<bool> over{false}, two_processors{true};
  std::uint32_t seen_there = 0, missed = 0;
  std::thread other([&] {
    two_processors = StayOn(1);
    for (std::uint32_t round = 1;; ++round) {
      while (begun.load() != round) {
        if (over) return;
      }
      // Built-in functions, because tests are not optimised: a call between the two would hide the mistake.
      __atomic_store_n(&there.value, round, __ATOMIC_RELEASE);
      seen_there = __atomic_load_n(&here.value, __ATOMIC_RELAXED);
      done.store(round);
    }
  });
  std::thread ending([&] {
    while (!over) std::thread([] { StayOn(1); }).join();
  });
  std::thread([&] {
    two_processors = StayOn(0) && two_processors;
    for (std::uint32_t round = 1; std::chrono::steady_clock::now() < end && two_processors; ++round) {
      begun.store(round);
      // About as long as the other thread takes to notice.
      for (std::uint32_t spins = round * 2654435761u >> 26; spins != 0; --spins) {
      }
      __atomic_exchange_n(&here.value, round, __ATOMIC_SEQ_CST);
      ASSERT_TRUE(ProcessBarrier());
      const std::uint32_t seen_here = __atomic_load_n(&there.value, __ATOMIC_ACQUIRE);
      while (done.load() != round) {
      }
      if (seen_here != round && seen_there != round) ++missed;
    }
  }).join();
  over = true;
  other.join();
  ending.join();
  if (!two_processors) GTEST_SKIP() << "needs two processors";
  EXPECT_EQ(missed, 0u);
}

}  // namespace
}  // namespace nd::provider::soft
