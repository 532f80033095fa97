// SPDX-License-Identifier: Apache-2.0
// The one table of statuses.
#include "provider/verbs/qp/work_completion.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace nd::provider::verbs {

StatusCode FromWcStatus(ibv_wc_status status, bool receive) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return StatusCode::kSuccess;
    case IBV_WC_WR_FLUSH_ERR:
      return StatusCode::kCanceled;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return StatusCode::kIoTimeout;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
      return StatusCode::kAccessViolation;
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_BAD_RESP_ERR:
      return StatusCode::kRemoteError;
    case IBV_WC_LOC_LEN_ERR:
      return StatusCode::kBufferOverflow;
    case IBV_WC_LOC_QP_OP_ERR:  // rxe reports this for a message that is longer than its receive.
      return receive ? StatusCode::kBufferOverflow : StatusCode::kInternalError;
    default:
      return StatusCode::kInternalError;
  }
}

DisconnectReason ReasonOf(ibv_wc_status status) {
  return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR ||
                 status == IBV_WC_RESP_TIMEOUT_ERR
             ? DisconnectReason::kTransportRetryExceeded
             : DisconnectReason::kUnknown;
}

Status CauseOf(ibv_wc_status status) {
  if (status == IBV_WC_WR_FLUSH_ERR) return {};
  return {StatusCode::kConnectionAborted,
          std::string("The device gave the queue pair up: ") + ibv_wc_status_str(status) + ".",
          Detail::kTransport, static_cast<std::int32_t>(status)};
}

Status FromPost(int result) {
  const int error = result < 0 ? -result : result;  // Some libraries return a negative errno.
  switch (error) {
    case 0:
      return {};
    case ENOMEM:
    case ENOBUFS:
    case EAGAIN:
      return {StatusCode::kNoMoreEntries, "the device's queue is full"};
    case EOPNOTSUPP:
      return {StatusCode::kNotSupported, "the device does not have this request"};
    case ENODEV:
    case EIO:
      return {StatusCode::kDeviceRemoved, "the RDMA device was removed"};
    case ENOTCONN:
      return {StatusCode::kConnectionInvalid, "the queue pair is not connected any more"};
    default:
      return {StatusCode::kInvalidParameter,
              std::string("the device refuses the request: ") + std::strerror(error), Detail::kNone, error};
  }
}

}  // namespace nd::provider::verbs
