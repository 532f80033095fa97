// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/qp/iwarp/answer_patience.h"

#include <gtest/gtest.h>

namespace nd::provider::soft {
namespace {

TEST(AnswerPatienceTest, AnAnswerWaitsForAnApplicationThatAnswers) {
  AnswerPatience patience;
  patience.OnRound();
  EXPECT_TRUE(patience.GoesAlone()) << "nothing is known about the application";
  patience.OnRound();
  patience.OnPost();
  for (int message = 0; message < 3; ++message) {
    patience.OnRound();
    EXPECT_FALSE(patience.GoesAlone());
    patience.OnPost();
  }
}

TEST(AnswerPatienceTest, AnAnswerWaitsInVainOnlyOnce) {
  AnswerPatience patience;
  patience.OnRound();
  EXPECT_TRUE(patience.GoesAlone());
  patience.OnPost();
  patience.OnRound();
  EXPECT_FALSE(patience.GoesAlone());
  patience.OnRound();
  EXPECT_TRUE(patience.GoesAlone()) << "one round is enough";
  patience.OnRound();
  patience.OnRound();
  patience.OnPost();
  EXPECT_TRUE(patience.GoesAlone()) << "the message came too late for it";
}

TEST(AnswerPatienceTest, APostWithoutAnAnswerTellsNothing) {
  AnswerPatience patience;
  patience.OnPost();
  patience.OnRound();
  EXPECT_TRUE(patience.GoesAlone());
}

}  // namespace
}  // namespace nd::provider::soft
