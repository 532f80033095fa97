// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/qp_state_rules.h"

#include <gtest/gtest.h>

namespace nd::verbs_lib {
namespace {

constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_MAX_QP_RD_ATOMIC;

TEST(QpStateRules, TheWayToRts) {
  EXPECT_TRUE(MayModify(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS));
  EXPECT_TRUE(MayModify(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr));
  EXPECT_TRUE(MayModify(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRts));
  EXPECT_TRUE(MayModify(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, kInit | IBV_QP_QKEY));
  EXPECT_TRUE(MayModify(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE));
  EXPECT_TRUE(MayModify(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

TEST(QpStateRules, NoStepMayBeLeftOut) {
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RTR, kRtr));
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTS, kRts));
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS));
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_SQD, IBV_QP_STATE));
}

TEST(QpStateRules, EveryRequiredAttributeMustBeThere) {
  const int masks[] = {IBV_QP_AV,     IBV_QP_PATH_MTU,           IBV_QP_DEST_QPN,
                       IBV_QP_RQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER};
  for (const int one : masks) EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr & ~one));
  EXPECT_FALSE(MayModify(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, kInit)) << "no Q_Key";
  EXPECT_FALSE(MayModify(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE)) << "no PSN";
}

TEST(QpStateRules, AnAttributeOfAnotherChangeOrTypeIsRefused) {
  EXPECT_FALSE(MayModify(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, kRtr));
  EXPECT_FALSE(MayModify(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, kInit | IBV_QP_QKEY | IBV_QP_ACCESS_FLAGS));
  EXPECT_FALSE(MayModify(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, kRtr)) << "UC has no answers";
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRts | IBV_QP_QKEY));
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RESET, IBV_QP_STATE | IBV_QP_PORT));
}

TEST(QpStateRules, EveryStateMayBecomeResetAndError) {
  for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; ++from) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
      EXPECT_TRUE(MayModify(type, static_cast<ibv_qp_state>(from), IBV_QPS_RESET, IBV_QP_STATE));
      EXPECT_TRUE(MayModify(type, static_cast<ibv_qp_state>(from), IBV_QPS_ERR, IBV_QP_STATE));
    }
  }
}

TEST(QpStateRules, OnlyDatagramsAndUcReturnFromAnErrorOfTheSendQueue) {
  EXPECT_TRUE(MayModify(IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
  EXPECT_FALSE(MayModify(IBV_QPT_RC, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
}

}  // namespace
}  // namespace nd::verbs_lib
