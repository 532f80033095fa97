// SPDX-License-Identifier: Apache-2.0
#include "cli/nearest.h"

#include <gtest/gtest.h>

namespace nd::cli {
namespace {

TEST(EditDistance, CountsSteps) {
  EXPECT_EQ(0U, EditDistance("list", "list"));
  EXPECT_EQ(1U, EditDistance("lsit", "list"));
  EXPECT_EQ(1U, EditDistance("lis", "list"));
  EXPECT_EQ(4U, EditDistance("", "list"));
}

TEST(Nearest, FindsTypingErrorsOnly) {
  const std::vector<std::string> words = {"connection", "listener", "port", "STATE"};
  EXPECT_EQ("connection", Nearest("conection", words));
  EXPECT_EQ("connection", Nearest("conn", words));
  EXPECT_EQ("STATE", Nearest("sate", words));
  EXPECT_EQ(std::nullopt, Nearest("banana", words));
  EXPECT_EQ(std::nullopt, Nearest("", words));
  EXPECT_EQ(std::nullopt, Nearest(std::string(100000, 'x'), words));
  EXPECT_EQ("use one of: a, b", Suggest("zzzz", {"a", "b"}));
}

}  // namespace
}  // namespace nd::cli
