// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/time_text.h"

#include <gtest/gtest.h>

namespace nd::service {
namespace {

std::string Again(std::string_view text) {
  const std::optional<WallTime> time = ParseTime(text);
  return time ? TimeText(*time) : "no time";
}

TEST(TimeText, ParsesItsOwnText) {
  for (const char* text : {"2026-02-03T04:05:06.789Z", "1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z",
                           "2024-02-29T23:59:59.001Z", "2200-12-31T00:00:00.000Z"}) {
    EXPECT_EQ(Again(text), text);
  }
}

TEST(TimeText, AcceptsTheFormsOfRfc3339) {
  EXPECT_EQ(Again("2026-02-03T04:05:06Z"), "2026-02-03T04:05:06.000Z");
  EXPECT_EQ(Again("2026-02-03t04:05:06.5z"), "2026-02-03T04:05:06.500Z");
  EXPECT_EQ(Again("2026-02-03T04:05:06.123456789Z"), "2026-02-03T04:05:06.123Z");
  EXPECT_EQ(Again("2026-02-03T04:05:06+02:00"), "2026-02-03T02:05:06.000Z");
  EXPECT_EQ(Again("2026-02-03T23:05:06-05:30"), "2026-02-04T04:35:06.000Z");
  EXPECT_EQ(Again("2016-12-31T23:59:60Z"), "2017-01-01T00:00:00.000Z") << "a leap second";
}

TEST(TimeText, RefusesEveryOtherText) {
  for (const char* text : {"",
                           "now",
                           "2026",
                           "2026-02-03",
                           "2026-02-03 04:05:06Z",
                           "2026-02-03T04:05Z",
                           "2026-02-30T04:05:06Z",
                           "2026-13-01T04:05:06Z",
                           "2026-00-01T04:05:06Z",
                           "2026-02-03T24:05:06Z",
                           "2026-02-03T04:60:06Z",
                           "2026-02-03T04:05:61Z",
                           "2026-02-03T04:05:06",
                           "2026-02-03T04:05:06.Z",
                           "2026-02-03T04:05:06.1234567890Z",
                           "2026-02-03T04:05:06+2:00",
                           "2026-02-03T04:05:06+02",
                           "2026-02-03T04:05:06ZZ",
                           "9999-02-03T04:05:06Z",
                           "-026-02-03T04:05:06Z",
                           "2026-02-03T04:05:06+24:00"}) {
    EXPECT_EQ(Again(text), "no time") << text;
  }
}

}  // namespace
}  // namespace nd::service
