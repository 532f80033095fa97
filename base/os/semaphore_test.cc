// SPDX-License-Identifier: Apache-2.0
#include "base/os/semaphore.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nd::os {
namespace {

TEST(Semaphore, EachUnitIsTakenOnce) {
  Semaphore semaphore;
  const Time now = std::chrono::steady_clock::now();
  EXPECT_FALSE(semaphore.WaitUntil(now));
  semaphore.Post();
  semaphore.Post();
  semaphore.Wait();
  EXPECT_TRUE(semaphore.WaitUntil(now)) << "a unit that is there is taken also after the deadline";
  EXPECT_FALSE(semaphore.WaitUntil(now + std::chrono::milliseconds(5)));
  EXPECT_GE(std::chrono::steady_clock::now(), now + std::chrono::milliseconds(5));
}

TEST(Semaphore, PostWakesAThread) {
  Semaphore there, back;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) {
      there.Wait();
      back.Post();
    }
  });
  for (int i = 0; i < 1000; ++i) {
    there.Post();
    EXPECT_TRUE(back.WaitUntil(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  }
  other.join();
}

// Each post arrives while the other thread is about to sleep, at some distance.
TEST(Semaphore, NoWakeUpIsLost) {
  Semaphore there, back;
  constexpr int kRounds = 20000;
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      there.Wait();
      back.Post();
    }
  });
  bool lost = false;
  for (int i = 0; i < kRounds && !lost; ++i) {
    there.Post();
    std::atomic<int> pause = i % 64;
    while (pause > 0) --pause;
    lost = !back.WaitUntil(std::chrono::steady_clock::now() + std::chrono::seconds(10));
    EXPECT_FALSE(lost) << i;
  }
  for (int i = 0; lost && i < kRounds; ++i) there.Post();
  other.join();
}

}  // namespace
}  // namespace nd::os
