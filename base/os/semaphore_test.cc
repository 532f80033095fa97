// SPDX-License-Identifier: Apache-2.0
#include "base/os/semaphore.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nd::os
