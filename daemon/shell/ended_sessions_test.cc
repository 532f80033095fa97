// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/ended_sessions.h"

#include <gtest/gtest.h>

#include <set>

namespace nd::service {
namespace {

// Notes its destruction.
struct Ended {
  Ended(int number, std::set<int>* destroyed) : number(number), destroyed_(destroyed) {}
  ~Ended() { destroyed_->insert(number); }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;
  const int number;

 private:
  std::set<int>* destroyed_;
};

class EndedSessionsTest : public ::testing::Test {
 protected:
  using Sessions = EndedSessions<Ended>;

  void Add(int count) {
    for (int i = 0; i < count; ++i) sessions_.Add(std::make_unique<Ended>(next_++, &destroyed_));
  }
  // Returns the number of sessions that the step looked at.
  std::size_t Step() {
    std::size_t looked_at = 0;
    sessions_.Forget([&](const Ended& session) {
      ++looked_at;
      return used_.contains(session.number);
    });
    return looked_at;
  }

  int next_ = 0;
  std::set<int> used_, destroyed_;  // Outlive the sessions.
  Sessions sessions_;
};

TEST_F(EndedSessionsTest, SessionsThatEndTogetherAreDestroyedInSteps) {
  Add(1000);
  for (std::size_t steps = 1; !sessions_.empty(); ++steps) {
    Step();
    ASSERT_EQ(destroyed_.size(), steps * Sessions::kDestroyed);
  }
  EXPECT_EQ(destroyed_.size(), 1000u);
  EXPECT_EQ(Step(), 0u);
}

TEST_F(EndedSessionsTest, StepLooksAtFewSessionsThatAreInUse) {
  Add(1000);
  for (int i = 0; i < 1000; ++i) used_.insert(i);
  EXPECT_EQ(Step(), Sessions::kLookedAt);
  EXPECT_TRUE(destroyed_.empty());
}

TEST_F(EndedSessionsTest, EachSessionIsReachedBehindOthersThatAreInUse) {
  Add(1000);
  for (int i = 0; i < 1000; ++i) used_.insert(i);
  used_.erase(999);
  for (std::size_t looked_at = 0; looked_at < 1000;) looked_at += Step();
  EXPECT_EQ(destroyed_, std::set<int>{999});
  for (int i = 0; i < 999; ++i) used_.erase(i);
  while (!sessions_.empty()) Step();
  EXPECT_EQ(destroyed_.size(), 1000u);
}

TEST_F(EndedSessionsTest, OneStepLooksAtASessionOnce) {
  Add(3);
  used_ = {0, 2};
  EXPECT_EQ(Step(), 3u);
  EXPECT_EQ(destroyed_, std::set<int>{1});
}

}  // namespace
}  // namespace nd::service
