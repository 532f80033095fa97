// SPDX-License-Identifier: Apache-2.0
// Names of status values, in one table each.
#include "nd/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace nd {
namespace {

struct CodeName {
  StatusCode code;
  std::string_view name;
};

constexpr CodeName kCodes[] = {
    {StatusCode::kSuccess, "SUCCESS"},
    {StatusCode::kPending, "PENDING"},
    {StatusCode::kBufferOverflow, "BUFFER_OVERFLOW"},
    {StatusCode::kDeviceBusy, "DEVICE_BUSY"},
    {StatusCode::kNoMoreEntries, "NO_MORE_ENTRIES"},
    {StatusCode::kUnsuccessful, "UNSUCCESSFUL"},
    {StatusCode::kAccessViolation, "ACCESS_VIOLATION"},
    {StatusCode::kInvalidHandle, "INVALID_HANDLE"},
    {StatusCode::kInvalidParameter, "INVALID_PARAMETER"},
    {StatusCode::kInvalidDeviceRequest, "INVALID_DEVICE_REQUEST"},
    {StatusCode::kNoMemory, "NO_MEMORY"},
    {StatusCode::kAccessDenied, "ACCESS_DENIED"},
    {StatusCode::kBufferTooSmall, "BUFFER_TOO_SMALL"},
    {StatusCode::kInvalidParameterMix, "INVALID_PARAMETER_MIX"},
    {StatusCode::kDataOverrun, "DATA_OVERRUN"},
    {StatusCode::kSharingViolation, "SHARING_VIOLATION"},
    {StatusCode::kInsufficientResources, "INSUFFICIENT_RESOURCES"},
    {StatusCode::kDeviceNotReady, "DEVICE_NOT_READY"},
    {StatusCode::kIoTimeout, "IO_TIMEOUT"},
    {StatusCode::kNotSupported, "NOT_SUPPORTED"},
    {StatusCode::kBadNetworkName, "BAD_NETWORK_NAME"},
    {StatusCode::kInternalError, "INTERNAL_ERROR"},
    {StatusCode::kInvalidParameter1, "INVALID_PARAMETER_1"},
    {StatusCode::kInvalidParameter2, "INVALID_PARAMETER_2"},
    {StatusCode::kInvalidParameter3, "INVALID_PARAMETER_3"},
    {StatusCode::kInvalidParameter4, "INVALID_PARAMETER_4"},
    {StatusCode::kInvalidParameter5, "INVALID_PARAMETER_5"},
    {StatusCode::kInvalidParameter6, "INVALID_PARAMETER_6"},
    {StatusCode::kInvalidParameter7, "INVALID_PARAMETER_7"},
    {StatusCode::kInvalidParameter8, "INVALID_PARAMETER_8"},
    {StatusCode::kInvalidParameter9, "INVALID_PARAMETER_9"},
    {StatusCode::kInvalidParameter10, "INVALID_PARAMETER_10"},
    {StatusCode::kCanceled, "CANCELED"},
    {StatusCode::kRemoteError, "REMOTE_ERROR"},
    {StatusCode::kInvalidAddress, "INVALID_ADDRESS"},
    {StatusCode::kInvalidDeviceState, "INVALID_DEVICE_STATE"},
    {StatusCode::kInvalidBufferSize, "INVALID_BUFFER_SIZE"},
    {StatusCode::kTooManyAddresses, "TOO_MANY_ADDRESSES"},
    {StatusCode::kAddressAlreadyExists, "ADDRESS_ALREADY_EXISTS"},
    {StatusCode::kConnectionDisconnected, "CONNECTION_DISCONNECTED"},
    {StatusCode::kConnectionRefused, "CONNECTION_REFUSED"},
    {StatusCode::kAddressAlreadyAssociated, "ADDRESS_ALREADY_ASSOCIATED"},
    {StatusCode::kAddressNotAssociated, "ADDRESS_NOT_ASSOCIATED"},
    {StatusCode::kConnectionInvalid, "CONNECTION_INVALID"},
    {StatusCode::kConnectionActive, "CONNECTION_ACTIVE"},
    {StatusCode::kNetworkUnreachable, "NETWORK_UNREACHABLE"},
    {StatusCode::kHostUnreachable, "HOST_UNREACHABLE"},
    {StatusCode::kConnectionAborted, "CONNECTION_ABORTED"},
    {StatusCode::kDeviceRemoved, "DEVICE_REMOVED"},
};

// Indexed by the value.
constexpr std::string_view kDetails[] = {
    "none",
    "no listener",
    "backlog full",
    "paused",
    "peer rejected",
    "listener closed",
    "peer withdrew",
    "peer process died",
    "peer broker lost",
    "transport",
    "wire timeout",
    "protocol",
    "policy",
    "quota",
    "local administrator",
    "adapter disabled",
    "broker unreachable",
    "stale connection",
};

}  // namespace

std::string_view Name(StatusCode code) {
  for (const CodeName& entry : kCodes) {
    if (entry.code == code) return entry.name;
  }
  return "UNKNOWN";
}

std::string_view Name(Detail detail) {
  const auto index = static_cast<std::size_t>(detail);
  return index < std::size(kDetails) ? kDetails[index] : "unknown";
}

std::optional<StatusCode> StatusCodeFromName(std::string_view name) {
  for (const CodeName& entry : kCodes) {
    if (entry.name == name) return entry.code;
  }
  return std::nullopt;
}

bool IsKnown(StatusCode code) {
  for (const CodeName& entry : kCodes) {
    if (entry.code == code) return true;
  }
  return false;
}

bool Status::retryable() const {
  switch (code_) {
    case StatusCode::kNetworkUnreachable:
    case StatusCode::kHostUnreachable:
    case StatusCode::kConnectionRefused:
    case StatusCode::kIoTimeout:
    case StatusCode::kAddressAlreadyExists:
    case StatusCode::kInsufficientResources:
    case StatusCode::kTooManyAddresses:
    case StatusCode::kDeviceBusy:
    case StatusCode::kDeviceNotReady:
    case StatusCode::kNoMoreEntries:
      return true;
    default:
      return false;
  }
}

std::string Status::ToString() const {
  std::string text(Name(code_));
  if (detail_ != Detail::kNone) {
    text.append(" (").append(Name(detail_));
    if (native_ != 0) text.append(" ").append(std::to_string(native_));
    text.append(")");
  }
  if (!message_.empty()) text.append(": ").append(message_);
  return text;
}

void internal::DieOnBadResult(const Status& status) {
  std::fprintf(stderr, "nd::Result used without a value: %s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace nd
