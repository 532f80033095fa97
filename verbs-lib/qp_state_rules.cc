// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/qp_state_rules.h"

#include <optional>

namespace nd::verbs_lib {
namespace {

struct Masks {
  int required = 0, allowed = 0;
};

Masks ResetToInit(ibv_qp_type type) {
  return {IBV_QP_PKEY_INDEX | IBV_QP_PORT | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS), 0};
}

Masks InitToRtr(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  const int answers = type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0;
  return {path | answers, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX};
}

// The attributes that may change on the way to RTS and in RTS.
int AllowedInRts(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return IBV_QP_CUR_STATE | IBV_QP_QKEY;
  return IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE |
         (type == IBV_QPT_RC ? IBV_QP_MIN_RNR_TIMER : 0);
}

Masks RtrToRts(ibv_qp_type type) {
  const int answers =
      type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;
  return {IBV_QP_SQ_PSN | answers, AllowedInRts(type)};
}

Masks SqdToSqd(ibv_qp_type type) {
  if (type == IBV_QPT_UD) return {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
  const int path =
      IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE;
  const int answers = IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return {0, path | (type == IBV_QPT_RC ? answers : 0)};
}

// Returns no value when there is no such change.
std::optional<Masks> MasksOf(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return Masks{};
  switch (from) {
    case IBV_QPS_RESET:
      if (to == IBV_QPS_INIT) return ResetToInit(type);
      break;
    case IBV_QPS_INIT:
      if (to == IBV_QPS_INIT) return Masks{0, ResetToInit(type).required};
      if (to == IBV_QPS_RTR) return InitToRtr(type);
      break;
    case IBV_QPS_RTR:
      if (to == IBV_QPS_RTS) return RtrToRts(type);
      break;
    case IBV_QPS_RTS:
      if (to == IBV_QPS_RTS) return Masks{0, AllowedInRts(type)};
      if (to == IBV_QPS_SQD) return Masks{0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
      break;
    case IBV_QPS_SQD:
      if (to == IBV_QPS_RTS) return Masks{0, AllowedInRts(type)};
      if (to == IBV_QPS_SQD) return SqdToSqd(type);
      break;
    case IBV_QPS_SQE:
      if (to == IBV_QPS_RTS && type != IBV_QPT_RC) return Masks{0, AllowedInRts(type)};
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool MayModify(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  const auto masks = MasksOf(type, from, to);
  if (!masks || (mask & masks->required) != masks->required) return false;
  return (mask & ~(masks->required | masks->allowed | IBV_QP_STATE)) == 0;
}

}  // namespace nd::verbs_lib
