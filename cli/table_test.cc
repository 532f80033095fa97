// SPDX-License-Identifier: Apache-2.0
// Columns align, and no cell can disturb the terminal.
#include "cli/table.h"

#include <gtest/gtest.h>

#include "tests/testing/process.h"

namespace nd::cli {
namespace {

TEST(Table, AlignsLeftAndRight) {
  Table table{{{"NAME", false}, {"N", true}, {"STATE", false}},
              {{{"a"}, {"7"}, {"up"}}, {{"longer"}, {"1234"}, {"down"}}}};
  EXPECT_EQ("NAME       N  STATE\na          7  up\nlonger  1234  down\n", table.Format(true, false));
  EXPECT_EQ("a          7  up\nlonger  1234  down\n", table.Format(false, false));
}

TEST(Table, EmptyCellsKeepTheColumns) {
  Table table{{{"A", false}, {"B", false}}, {{{""}, {"x"}}}};
  EXPECT_EQ("A  B\n-  x\n", table.Format(true, false));
}

TEST(Table, CountsCodePoints) {
  Table table{{{"A", false}, {"B", false}}, {{{"\xC3\xA9"}, {"x"}}}};
  EXPECT_EQ("A  B\n\xC3\xA9  x\n", table.Format(true, false));
}

TEST(Table, ShortensNamesInTheMiddle) {
  EXPECT_EQ("abcdef", ShortenMiddle("abcdef", 6));
  EXPECT_EQ("abc~hi", ShortenMiddle("abcdefghi", 6));
  EXPECT_EQ("\xc3\xa4\xc3\xb6~\xc3\x9f", ShortenMiddle("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xc3\x9f", 4));
  EXPECT_EQ("~", ShortenMiddle("ab", 1));
  Table table{{{"NAME"}, {"N", true}}, {{{"a-long-name-of-something"}, {"1"}}, {{"b"}, {"1000"}}}};
  table.FitInto(16, 0);
  EXPECT_EQ("NAME           N\na-lon~hing     1\nb           1000\n", table.Format(true, false));
  table.FitInto(3, 0);
  EXPECT_EQ("a-~g", table.rows[0][0].text) << "never below the header";
}

TEST(Table, ControlCharactersAreReplaced) {
  Table table{{{"A", false}}, {{{"\x1b[31m\n\xC2\x9B"}}}};
  EXPECT_EQ("?[31m??\n", table.Format(false, true));
}

TEST(Table, ColorsOnlyWhenAsked) {
  Table table{{{"S", false}}, {{{"up", "32"}}}};
  EXPECT_EQ("up\n", table.Format(false, false));
  EXPECT_EQ("\033[32mup\033[0m\n", table.Format(false, true));
}

Table Two(const std::string& first, const std::string& age) {
  return {{{"N", true}, {"AGE", false, true}}, {{{first}, {age}}, {{"5"}, {"1s"}}}, {"a", "b"}};
}

TEST(Table, MarksChangesExceptInRestlessColumns) {
  Table now = Two("12", "3s");
  now.MarkChanges(Two("11", "2s"));
  EXPECT_EQ("  N  AGE\n12*  3s\n  5  1s\n", now.Format(true, false));
  EXPECT_EQ("\033[7m12\033[0m  3s\n 5  1s\n", now.Format(false, true));
}

TEST(Table, MarksNewRowsAndFollowsRowsThatMoved) {
  Table now = Two("12", "3s");
  Table before{{{"N", true}, {"AGE", false, true}}, {{{"5"}, {"1s"}}}, {"b"}};
  now.MarkChanges(before);
  EXPECT_TRUE(now.rows[0][0].changed);
  EXPECT_FALSE(now.rows[1][0].changed);
}

TEST(Color, FollowsTheConventions) {
  testing::SetVariable("NO_COLOR", nullptr);
  testing::SetVariable("CLICOLOR_FORCE", nullptr);
  testing::SetVariable("TERM", "xterm");
  EXPECT_TRUE(UseColor(ColorMode::kAuto, true));
  EXPECT_FALSE(UseColor(ColorMode::kAuto, false));
  EXPECT_TRUE(UseColor(ColorMode::kAlways, false));
  EXPECT_FALSE(UseColor(ColorMode::kNever, true));
  testing::SetVariable("TERM", "dumb");
  EXPECT_FALSE(UseColor(ColorMode::kAuto, true));
  testing::SetVariable("CLICOLOR_FORCE", "1");
  EXPECT_TRUE(UseColor(ColorMode::kAuto, false));
  testing::SetVariable("NO_COLOR", "1");
  EXPECT_FALSE(UseColor(ColorMode::kAuto, true));
  testing::SetVariable("NO_COLOR", nullptr);
  testing::SetVariable("CLICOLOR_FORCE", nullptr);
}

}  // namespace
}  // namespace nd::cli
