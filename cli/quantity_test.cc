// SPDX-License-Identifier: Apache-2.0
// Units and times: every accepted form, and the errors for others.
#include "cli/quantity.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nd::cli {
namespace {

double Quantity(const std::string& text, Unit unit = Unit::kAny) {
  double value = 0;
  return ParseQuantity(text, unit, &value) ? NAN : value;
}

std::string Complaint(const std::string& text, Unit unit) {
  double value = 0;
  const Failure failure = ParseQuantity(text, unit, &value);
  if (!failure) return "none";
  EXPECT_EQ(Exit::kUsage, failure->exit);
  return failure->message + " | " + failure->hint;
}

std::string Time(const std::string& text) {
  std::string utc;
  const Failure failure = ParseTime(text, 1795255200, &utc);  // 2026-11-21T10:00:00Z
  return failure ? "error: " + failure->message : utc;
}

TEST(Quantity, NumbersWithAndWithoutUnits) {
  EXPECT_EQ(10, Quantity("10"));
  EXPECT_EQ(0.25, Quantity("250ms"));
  EXPECT_EQ(5400, Quantity("1.5h"));
  EXPECT_EQ(120, Quantity("2m"));
  EXPECT_EQ(65536, Quantity("64KiB"));
  EXPECT_EQ(64000, Quantity("64 KB"));
  EXPECT_EQ(1e6, Quantity("1e6"));
}

TEST(Quantity, ErrorsNameTheText) {
  EXPECT_EQ("'x' is not a quantity | write for example 10s", Complaint("x", Unit::kSeconds));
  EXPECT_EQ("'' is not a quantity | write for example 64KiB", Complaint("", Unit::kBytes));
  EXPECT_EQ("'-1' is not a quantity | write for example 10s", Complaint("-1", Unit::kSeconds));
  EXPECT_EQ("'nan' is not a quantity | write for example 10s", Complaint("nan", Unit::kSeconds));
  EXPECT_EQ("'inf' is not a quantity | write for example 10s", Complaint("inf", Unit::kSeconds));
  EXPECT_EQ("unknown unit 'mib' in '1mib' | did you mean 'MiB'?", Complaint("1mib", Unit::kBytes));
  EXPECT_TRUE(Complaint("5KiB", Unit::kSeconds).starts_with("unknown unit 'KiB' in '5KiB' | "));
}

TEST(Time, EveryForm) {
  EXPECT_EQ("2026-11-21T10:00:00Z", Time("now"));
  EXPECT_EQ("2026-11-21T09:50:00Z", Time("10m"));
  EXPECT_EQ("2026-11-18T10:00:00Z", Time("3d"));
  EXPECT_EQ("2026-11-21T00:00:00Z", Time("2026-11-21"));
  EXPECT_EQ("2026-11-21T08:30:00Z", Time("2026-11-21T08:30:00Z"));
  EXPECT_EQ("2026-11-21T06:30:00.25Z", Time("2026-11-21T08:30:00.25+02:00"));
  EXPECT_EQ("2026-11-21T12:30:00Z", Time("2026-11-21 08:30:00-04:00"));
  EXPECT_EQ("2024-02-29T00:00:00Z", Time("2024-02-29"));
}

TEST(Time, ErrorsNameTheText) {
  for (const char* text : {"", "yesterday", "2026-13-01", "2026-02-30", "2026-11-21T25:00:00Z",
                           "2026-11-21T10:00:00", "2026-11-21T10:00Z", "2026-11-21T10:00:00.Z",
                           "2026-11-21T10:00:00+2", "2026-11-21Z", "-5m", "5parsecs", "1e300d"}) {
    EXPECT_TRUE(Time(text).starts_with("error: ")) << text << " gave " << Time(text);
  }
}

TEST(Time, SecondsKeepTheFraction) {
  EXPECT_DOUBLE_EQ(1795255200.5, SecondsOf("2026-11-21T10:00:00.5Z").value());
  EXPECT_FALSE(SecondsOf("x"));
  EXPECT_FALSE(SecondsOf(""));
}

}  // namespace
}  // namespace nd::cli
