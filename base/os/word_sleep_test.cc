// SPDX-License-Identifier: Apache-2.0
#include "base/os/word_sleep.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <thread>

namespace nd::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Time In(Duration time) {
  return Time(std::chrono::steady_clock::now()) + time;
}

class WordSleepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CanSleepOnWords()) GTEST_SKIP() << "this kernel is older than 5.16";
  }
  std::atomic<std::uint32_t> here_{0}, other_{0};
};

TEST_F(WordSleepTest, EndsAtItsTime) {
  const Time until = In(milliseconds(5));
  SleepOnWords(std::array{SleptOn{&here_, 0, false}, SleptOn{&other_, 0, true}}, until);
  EXPECT_GE(Time(std::chrono::steady_clock::now()), until);
}

TEST_F(WordSleepTest, NobodySleepsOnAWordWithAnotherValue) {
  const Time until = In(seconds(30));
  SleepOnWords(std::array{SleptOn{&here_, 0, false}, SleptOn{&other_, 1, true}}, until);
  EXPECT_LT(Time(std::chrono::steady_clock::now()), until);
}

// Each turn arrives while the other thread is about to sleep, at some distance.
TEST_F(WordSleepTest, EachWordWakes) {
  constexpr std::uint32_t kTurns = 2000;
  const Time until = In(seconds(30));
  std::thread thread([&] {
    for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
      std::atomic<std::uint32_t>& word = turn % 2 == 0 ? here_ : other_;
      word.fetch_add(1);
      WakeWord(word, &word == &other_);
      while (here_.load() + other_.load() == turn && In({}) < until) std::this_thread::yield();
    }
  });
  for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
    while (here_.load() + other_.load() < 2 * turn - 1 && In({}) < until) {
      const std::uint32_t here = here_.load(), other = other_.load();
      if (here + other >= 2 * turn - 1) break;
      SleepOnWords(std::array{SleptOn{&here_, here, false}, SleptOn{&other_, other, true}}, until);
    }
    (turn % 3 == 0 ? here_ : other_).fetch_add(1);
  }
  thread.join();
  EXPECT_LT(In({}), until);
}

TEST_F(WordSleepTest, AnotherProcessWakes) {
  void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& word = *new (memory) std::atomic<std::uint32_t>(0);
  const pid_t child = fork();
  if (child == 0) {
    usleep(20'000);
    word.store(1);
    WakeWord(word, true);
    _exit(0);
  }
  const Time until = In(seconds(30));
  while (word.load() == 0 && In({}) < until) SleepOnWords(std::array{SleptOn{&word, 0, true}}, until);
  EXPECT_LT(In({}), until);
  waitpid(child, nullptr, 0);
  munmap(memory, 4096);
}

}  // namespace
}  // namespace nd::os
