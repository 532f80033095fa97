// SPDX-License-Identifier: Apache-2.0
// Log rate limit, text cleaning and the readings of /proc.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"

namespace nd::ops {
namespace {

TEST(RateLimit, LetsABurstThroughThenCountsWhatItLeavesOut) {
  RateLimit limit;
  const Time start{};
  for (std::uint32_t i = 0; i < RateLimit::kBurst; ++i) EXPECT_EQ(limit.Admit("a", start), 0u);
  EXPECT_EQ(limit.Admit("a", start), std::nullopt);
  EXPECT_EQ(limit.Admit("a", start), std::nullopt);
  EXPECT_EQ(limit.Admit("b", start), 0u) << "causes are counted apart";
  EXPECT_EQ(limit.Admit("a", start + RateLimit::kPeriod), 2u);
  EXPECT_EQ(limit.Admit("a", start + RateLimit::kPeriod), 0u);
}

TEST(Printable, ReplacesWhatCouldForgeALine) {
  EXPECT_EQ(Printable("a\nb\x1b[31m\xff"), "a?b?[31m?");
  EXPECT_EQ(Printable("abcdef", 3), "abc");
}

TEST(LogLevel, KnowsItsNames) {
  EXPECT_TRUE(IsLogLevel("warning"));
  EXPECT_FALSE(IsLogLevel("loud"));
}

TEST(Process, CountsItsDescriptors) {
  const std::uint32_t before = OpenFds();
  UniqueFd one(::dup(0)), two(::dup(0));
  EXPECT_EQ(OpenFds(), before + 2);
}

TEST(Process, KnowsItself) {
  EXPECT_GT(ResidentBytes(), 0u);
  EXPECT_EQ(RaiseFdLimit(), FdLimit());
  EXPECT_EQ(CommandOf(static_cast<std::uint32_t>(::getpid())), "ops_test");
  EXPECT_EQ(CommandOf(0), "");
  EXPECT_NE(RandomNumber(), RandomNumber());
}

}  // namespace
}  // namespace nd::ops
