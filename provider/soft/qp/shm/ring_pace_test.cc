// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/shm/ring_pace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nd::provider::soft {
namespace {

using us = std::chrono::microseconds;

TEST(ChooseWay, OfEachSituation) {
  struct Row {
    WayFacts facts;
    Way way;
  };
  const Row rows[] = {
      {{.length = 8}, Way::kRing},
      {{.length = 8, .peer_slow = true}, Way::kCopy},
      {{.length = 8, .peer_slow = true, .in_stream = true}, Way::kRing},
      // In its order behind those in the ring.
      {{.length = 8, .ring_busy = true, .peer_slow = true}, Way::kRing},
      {{.length = kCopyFrom - 1, .peer_slow = true, .in_stream = true}, Way::kRing},
      {{.length = kCopyFrom, .peer_slow = true, .in_stream = true}, Way::kCopy},
      {{.length = kCopyFrom, .peer_slow = true}, Way::kCopy},
      {{.length = kCopyFrom, .ring_busy = true, .peer_slow = true}, Way::kWait},
      {{.length = kCopyFrom}, Way::kRing},
      {{.length = kCopyFrom, .ring_busy = true}, Way::kRing},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ChooseWay(row.facts), row.way)
        << row.facts.length << row.facts.ring_busy << row.facts.peer_slow << row.facts.in_stream;
  }
}

// A peer that takes each request `after` so long.
void Exchange(RingPace& pace, Time& now, Duration after) {
  if (!pace.Times()) return;
  pace.Enter(now, 0);
  now += after;
  pace.Leave(now);
}

TEST(RingPace, APeerIsAsFastAsItWasLast) {
  RingPace pace;
  Time now{us(1)};
  EXPECT_FALSE(pace.Slow(false));
  EXPECT_TRUE(pace.Slow(true));
  Exchange(pace, now, us(11));
  EXPECT_TRUE(pace.Slow(false));
  Exchange(pace, now, us(9));
  EXPECT_FALSE(pace.Slow(false));
}

TEST(RingPace, FewRequestsToAFastPeerAreTimed) {
  RingPace pace;
  Time now{us(1)};
  unsigned timed = 0;
  for (unsigned i = 0; i < 10 * RingPace::kTimed; ++i) {
    if (!pace.Times()) continue;
    ++timed;
    pace.Enter(now, 0);
    EXPECT_FALSE(pace.Times()) << "one at a time";
    pace.Leave(now + us(1));
  }
  EXPECT_EQ(timed, 10u);
}

TEST(RingPace, ASlowPeerIsTriedAgainAfterMoreAndMoreCopies) {
  for (const bool armed : {false, true}) {
    RingPace pace;
    Time now{us(1)};
    if (!armed) Exchange(pace, now, us(100));
    for (std::uint32_t pause = RingPace::kCopies; pause < 4 * RingPace::kMostCopies; pause *= 2) {
      const std::uint32_t copies = std::min(pause, RingPace::kMostCopies);
      for (std::uint32_t i = 0; i < copies; ++i) {
        ASSERT_TRUE(pace.Slow(armed)) << i << " of " << copies;
        pace.Copied(now);
      }
      ASSERT_FALSE(pace.Slow(armed));
      Exchange(pace, now, us(100));
    }
    for (std::uint32_t i = 0; i < RingPace::kMostCopies; ++i) pace.Copied(now);
    ASSERT_FALSE(pace.Slow(armed));
    Exchange(pace, now, us(1));
    EXPECT_FALSE(pace.Slow(false)) << "it is fast now";
    EXPECT_TRUE(pace.Slow(true));
  }
}

TEST(RingPace, AStreamIsWithoutPauses) {
  const Time now{us(100)};
  for (const bool copied : {true, false}) {
    RingPace pace;
    if (copied) {
      pace.Copied(now);
    } else {
      pace.Enter(now - us(50), 0);
      pace.Leave(now);
    }
    EXPECT_TRUE(pace.InStream(now + RingPace::kStream / 2));
    EXPECT_FALSE(pace.InStream(now + RingPace::kStream));
  }
}

}  // namespace
}  // namespace nd::provider::soft
