// SPDX-License-Identifier: Apache-2.0
// The rate limit of the log, sanitized text, levels, and the lines that are remembered.
#include "daemon/ops/logging.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace nd::ops {
namespace {

TEST(RateLimit, AllowsABurstThenCountsSuppressedLines) {
  RateLimit limit;
  const Time start{};
  for (std::uint32_t i = 0; i < RateLimit::kBurst; ++i) EXPECT_EQ(limit.Admit("a", start), 0u);
  EXPECT_EQ(limit.Admit("a", start), std::nullopt);
  EXPECT_EQ(limit.Admit("a", start), std::nullopt);
  EXPECT_EQ(limit.Admit("b", start), 0u) << "causes are counted apart";
  EXPECT_EQ(limit.Admit("a", start + RateLimit::kPeriod), 2u);
  EXPECT_EQ(limit.Admit("a", start + RateLimit::kPeriod), 0u);
}

TEST(Printable, ReplacesCharactersThatCouldForgeALine) {
  EXPECT_EQ(Printable("a\nb\x1b[31m\xff"), "a?b?[31m?");
  EXPECT_EQ(Printable("abcdef", 3), "abc");
}

TEST(LogLevel, AcceptsItsNames) {
  EXPECT_TRUE(IsLogLevel("warning"));
  EXPECT_FALSE(IsLogLevel("loud"));
}

TEST(Log, RemembersItsNewestLines) {
  StartLogging("info");
  EXPECT_EQ(LogLevel(), "info");
  EXPECT_FALSE(LogsToJournal());
  LogInfo("one\ntwo");
  LogDebug("not at this level");
  LogError("three");
  const std::vector<std::string> lines = NewestLogLines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].ends_with("info one?two")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with("error three")) << lines[1];
  testing::internal::CaptureStderr();
  for (std::size_t i = 0; i < kRememberedLines; ++i) LogInfo("line " + std::to_string(i));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(NewestLogLines().size(), kRememberedLines);
  EXPECT_TRUE(NewestLogLines(1).at(0).ends_with("line 1999"));
  EXPECT_TRUE(NewestLogLines().at(0).ends_with("line 0"));
  SetLogLevel("off");
  EXPECT_EQ(LogLevel(), "off");
}

}  // namespace
}  // namespace nd::ops
