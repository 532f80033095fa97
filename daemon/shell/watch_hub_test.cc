// SPDX-License-Identifier: Apache-2.0
// Past and future events meet without a gap, and forgotten events are reported.
#include "daemon/shell/watch_hub.h"

#include <gtest/gtest.h>

namespace nd::service {
namespace {

using std::chrono::seconds;

class Listener final : public Watcher {
 public:
  void Offer(const WatchedEvent& event, std::uint64_t lost_before) override {
    events.push_back(event);
    lost.push_back(lost_before);
  }
  void PastIsOver() override { over = true; }
  std::vector<WatchedEvent> events;
  std::vector<std::uint64_t> lost;
  bool over = false;
};

class WatchHubTest : public ::testing::Test {
 protected:
  const WallTime start_ = *ParseTime("2026-02-03T04:05:06Z");
  WatchHub hub_;
  std::shared_ptr<Listener> reader_ = std::make_shared<Listener>();

  void Publish(int second) { hub_.Publish(start_ + seconds(second), "t", "o", std::to_string(second)); }
};

TEST_F(WatchHubTest, WithoutATimeOnlyNewEventsAreSent) {
  Publish(0);
  hub_.Add(reader_);
  Publish(1);
  ASSERT_EQ(reader_->events.size(), 1u);
  EXPECT_EQ(reader_->events[0].message, "1");
  EXPECT_EQ(TimeText(reader_->events[0].time), "2026-02-03T04:05:07.000Z");
  hub_.Remove(reader_.get());
  Publish(2);
  EXPECT_EQ(reader_->events.size(), 1u);
}

TEST_F(WatchHubTest, PastEventsFromATimeComeFirst) {
  for (int i = 0; i < 5; ++i) Publish(i);
  hub_.Add(reader_, start_ + seconds(3));
  Publish(5);
  ASSERT_EQ(reader_->events.size(), 3u);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(reader_->events[static_cast<std::size_t>(i)].message, std::to_string(i + 3));
  EXPECT_FALSE(reader_->over);
}

TEST_F(WatchHubTest, PastOnlyEndsAfterThePast) {
  Publish(0);
  hub_.Add(reader_, start_, /*past_only=*/true);
  EXPECT_TRUE(reader_->over);
  Publish(1);
  EXPECT_EQ(reader_->events.size(), 1u);
}

TEST_F(WatchHubTest, ReportsTheNumberOfForgottenEvents) {
  const int more = 3;
  for (int i = 0; i < static_cast<int>(WatchHub::kRemembered) + more; ++i) Publish(i);
  hub_.Add(reader_, start_, true);
  ASSERT_EQ(reader_->events.size(), WatchHub::kRemembered);
  EXPECT_EQ(reader_->events[0].message, std::to_string(more));
  EXPECT_EQ(reader_->lost[0], static_cast<std::uint64_t>(more));
  EXPECT_EQ(reader_->lost[1], 0u);
  auto later = std::make_shared<Listener>();
  hub_.Add(later, start_ + seconds(more), true);
  EXPECT_EQ(later->lost[0], 0u) << "all of that time is there";
}

TEST_F(WatchHubTest, NewestEventsAreNumberedAndKnownOnesAreSkipped) {
  for (int i = 0; i < 5; ++i) Publish(i);
  std::vector<std::string> seen;
  const auto note = [&](std::uint64_t number, const WatchedEvent& event) {
    seen.push_back(std::to_string(number) + "=" + event.message);
  };
  hub_.Newest(0, 2, note);
  EXPECT_EQ(seen, (std::vector<std::string>{"3=3", "4=4"}));
  seen.clear();
  hub_.Newest(4, 100, note);
  EXPECT_EQ(seen, std::vector<std::string>{"4=4"});
  hub_.Newest(9, 100, note);
  EXPECT_EQ(seen.size(), 1u);
  EXPECT_EQ(hub_.published(), 5u);
}

}  // namespace
}  // namespace nd::service
