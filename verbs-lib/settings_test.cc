// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/settings.h"

#include <gtest/gtest.h>

namespace nd::verbs_lib {
namespace {

TEST(ApplicationName, IsThatOfTheProgramInAllowedCharacters) {
  EXPECT_EQ(ApplicationName("rping"), "rping");
  EXPECT_EQ(ApplicationName("Io.demo_2-x"), "Io.demo_2-x");
  EXPECT_EQ(ApplicationName("my program (old)"), "my_program__old_");
  EXPECT_EQ(ApplicationName("\xc3\xa9t\xc3\xa9\n"), "__t___");
  EXPECT_EQ(ApplicationName(std::string(200, 'a')), std::string(64, 'a'));
  EXPECT_EQ(ApplicationName(""), "");
}

}  // namespace
}  // namespace nd::verbs_lib
