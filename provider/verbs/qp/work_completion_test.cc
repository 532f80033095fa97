// SPDX-License-Identifier: Apache-2.0
#include "provider/verbs/qp/work_completion.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace nd::provider::verbs {
namespace {

TEST(WorkCompletion, EveryStatusHasItsCode) {
  const std::pair<ibv_wc_status, StatusCode> rows[] = {
      {IBV_WC_SUCCESS, StatusCode::kSuccess},
      {IBV_WC_LOC_LEN_ERR, StatusCode::kBufferOverflow},
      {IBV_WC_LOC_QP_OP_ERR, StatusCode::kInternalError},
      {IBV_WC_LOC_EEC_OP_ERR, StatusCode::kInternalError},
      {IBV_WC_LOC_PROT_ERR, StatusCode::kAccessViolation},
      {IBV_WC_WR_FLUSH_ERR, StatusCode::kCanceled},
      {IBV_WC_MW_BIND_ERR, StatusCode::kAccessViolation},
      {IBV_WC_BAD_RESP_ERR, StatusCode::kRemoteError},
      {IBV_WC_LOC_ACCESS_ERR, StatusCode::kAccessViolation},
      {IBV_WC_REM_INV_REQ_ERR, StatusCode::kRemoteError},
      {IBV_WC_REM_ACCESS_ERR, StatusCode::kAccessViolation},
      {IBV_WC_REM_OP_ERR, StatusCode::kRemoteError},
      {IBV_WC_RETRY_EXC_ERR, StatusCode::kIoTimeout},
      {IBV_WC_RNR_RETRY_EXC_ERR, StatusCode::kIoTimeout},
      {IBV_WC_REM_ABORT_ERR, StatusCode::kRemoteError},
      {IBV_WC_FATAL_ERR, StatusCode::kInternalError},
      {IBV_WC_RESP_TIMEOUT_ERR, StatusCode::kIoTimeout},
      {IBV_WC_GENERAL_ERR, StatusCode::kInternalError},
  };
  for (const auto& [status, code] : rows) {
    EXPECT_EQ(Name(FromWcStatus(status, false)), Name(code)) << ibv_wc_status_str(status);
    if (status == IBV_WC_LOC_QP_OP_ERR) continue;
    EXPECT_EQ(Name(FromWcStatus(status, true)), Name(code)) << ibv_wc_status_str(status);
  }
  EXPECT_EQ(Name(FromWcStatus(IBV_WC_LOC_QP_OP_ERR, true)), Name(StatusCode::kBufferOverflow));
}

TEST(WorkCompletion, OnlyRetryExhaustionIsALostPeer) {
  EXPECT_EQ(ReasonOf(IBV_WC_RETRY_EXC_ERR), DisconnectReason::kTransportRetryExceeded);
  EXPECT_EQ(ReasonOf(IBV_WC_RNR_RETRY_EXC_ERR), DisconnectReason::kTransportRetryExceeded);
  EXPECT_EQ(ReasonOf(IBV_WC_REM_ACCESS_ERR), DisconnectReason::kUnknown);
  EXPECT_EQ(ReasonOf(IBV_WC_WR_FLUSH_ERR), DisconnectReason::kUnknown);
}

TEST(WorkCompletion, PostErrors) {
  EXPECT_TRUE(FromPost(0).ok());
  EXPECT_EQ(FromPost(ENOMEM).code(), StatusCode::kNoMoreEntries);
  EXPECT_EQ(FromPost(-ENOMEM).code(), StatusCode::kNoMoreEntries);
  EXPECT_EQ(FromPost(EOPNOTSUPP).code(), StatusCode::kNotSupported);
  EXPECT_EQ(FromPost(EINVAL).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(FromPost(ENODEV).code(), StatusCode::kDeviceRemoved);
}

}  // namespace
}  // namespace nd::provider::verbs
