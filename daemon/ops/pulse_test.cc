// SPDX-License-Identifier: Apache-2.0
#include "daemon/ops/pulse.h"

#include <gtest/gtest.h>

#include <atomic>

namespace nd::ops {
namespace {

using std::chrono::milliseconds;

// A thread whose answers the test gives explicitly.
struct FakeThread {
  std::mutex mutex;
  std::vector<std::function<void()>> questions;
  Pulse::Post post() {
    return [this](std::function<void()> question) {
      const std::lock_guard lock(mutex);
      questions.push_back(std::move(question));
    };
  }
  std::size_t Answer() {
    std::vector<std::function<void()>> taken;
    {
      const std::lock_guard lock(mutex);
      taken.swap(questions);
    }
    for (const auto& question : taken) question();
    return taken.size();
  }
};

// Rounds follow at once, and the test sees each one before the next begins.
class PulseTest : public ::testing::Test {
 protected:
  void Round() {
    std::unique_lock lock(mutex_);
    const int before = rounds_;
    turn_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return rounds_ > before; });
  }
  ~PulseTest() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    pulse_.reset();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int rounds_ = 0;
  bool turn_ = false, ending_ = false;
  Pulse::Names told_;
  FakeThread loop_, worker_;  // Outlive the pulse.
  std::unique_ptr<Pulse> pulse_ =
      std::make_unique<Pulse>(Pulse::Options{milliseconds(1), [this](const Pulse::Names& stale) {
                                               std::unique_lock lock(mutex_);
                                               changed_.wait(lock, [&] { return turn_ || ending_; });
                                               turn_ = false;
                                               told_ = stale;
                                               ++rounds_;
                                               changed_.notify_all();
                                             }});
};

TEST_F(PulseTest, NamesOnlyTheThreadThatDoesNotAnswer) {
  Round();
  pulse_->Join("loop", loop_.post(), 2);
  pulse_->Join("worker", worker_.post(), 2);
  for (int i = 0; i < 10; ++i) {
    Round();
    loop_.Answer();
    worker_.Answer();
    EXPECT_TRUE(told_.empty());
  }
  for (int i = 0; i < 10; ++i) {
    Round();
    loop_.Answer();
  }
  EXPECT_EQ(told_, Pulse::Names{"worker"});
  EXPECT_EQ(pulse_->Stale(), Pulse::Names{"worker"});
  EXPECT_EQ(worker_.Answer(), 1u) << "a stuck thread gathers no questions";
  for (int i = 0; i < 3; ++i) {
    Round();
    loop_.Answer();
    worker_.Answer();
  }
  EXPECT_TRUE(told_.empty()) << "it answers again";
  const std::vector<Pulse::Member> members = pulse_->Members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1].name, "worker");
  EXPECT_FALSE(members[1].stale);
}

TEST_F(PulseTest, EachMemberHasItsOwnPatience) {
  pulse_->Join("quick", loop_.post(), 1);
  pulse_->Join("slow", worker_.post(), 1000);
  for (int i = 0; i < 10; ++i) Round();
  EXPECT_EQ(told_, Pulse::Names{"quick"});
}

TEST_F(PulseTest, AnswerAfterTheEndOfThePulseIsHarmless) {
  pulse_->Join("late", loop_.post());
  for (int i = 0; i < 3; ++i) Round();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  pulse_->Stop();
  EXPECT_EQ(loop_.Answer(), 1u);
  pulse_.reset();
}

}  // namespace
}  // namespace nd::ops
