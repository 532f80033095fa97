// SPDX-License-Identifier: Apache-2.0
// Status names as the specification writes them.
#pragma once

#include "nd/status.h"

namespace nd::conformance {

inline constexpr StatusCode SUCCESS = StatusCode::kSuccess;
inline constexpr StatusCode PENDING = StatusCode::kPending;
inline constexpr StatusCode BUFFER_OVERFLOW = StatusCode::kBufferOverflow;
inline constexpr StatusCode DEVICE_BUSY = StatusCode::kDeviceBusy;
inline constexpr StatusCode NO_MORE_ENTRIES = StatusCode::kNoMoreEntries;
inline constexpr StatusCode ACCESS_VIOLATION = StatusCode::kAccessViolation;
inline constexpr StatusCode INVALID_HANDLE = StatusCode::kInvalidHandle;
inline constexpr StatusCode INVALID_PARAMETER = StatusCode::kInvalidParameter;
inline constexpr StatusCode INVALID_DEVICE_REQUEST = StatusCode::kInvalidDeviceRequest;
inline constexpr StatusCode ACCESS_DENIED = StatusCode::kAccessDenied;
inline constexpr StatusCode BUFFER_TOO_SMALL = StatusCode::kBufferTooSmall;
inline constexpr StatusCode DATA_OVERRUN = StatusCode::kDataOverrun;
inline constexpr StatusCode SHARING_VIOLATION = StatusCode::kSharingViolation;
inline constexpr StatusCode INSUFFICIENT_RESOURCES = StatusCode::kInsufficientResources;
inline constexpr StatusCode DEVICE_NOT_READY = StatusCode::kDeviceNotReady;
inline constexpr StatusCode IO_TIMEOUT = StatusCode::kIoTimeout;
inline constexpr StatusCode BAD_NETWORK_NAME = StatusCode::kBadNetworkName;
inline constexpr StatusCode INVALID_PARAMETER_1 = StatusCode::kInvalidParameter1;
inline constexpr StatusCode INVALID_PARAMETER_2 = StatusCode::kInvalidParameter2;
inline constexpr StatusCode CANCELED = StatusCode::kCanceled;
inline constexpr StatusCode REMOTE_ERROR = StatusCode::kRemoteError;
inline constexpr StatusCode INVALID_ADDRESS = StatusCode::kInvalidAddress;
inline constexpr StatusCode INVALID_DEVICE_STATE = StatusCode::kInvalidDeviceState;
inline constexpr StatusCode INVALID_BUFFER_SIZE = StatusCode::kInvalidBufferSize;
inline constexpr StatusCode TOO_MANY_ADDRESSES = StatusCode::kTooManyAddresses;
inline constexpr StatusCode ADDRESS_ALREADY_EXISTS = StatusCode::kAddressAlreadyExists;
inline constexpr StatusCode CONNECTION_DISCONNECTED = StatusCode::kConnectionDisconnected;
inline constexpr StatusCode CONNECTION_REFUSED = StatusCode::kConnectionRefused;
inline constexpr StatusCode ADDRESS_ALREADY_ASSOCIATED = StatusCode::kAddressAlreadyAssociated;
inline constexpr StatusCode ADDRESS_NOT_ASSOCIATED = StatusCode::kAddressNotAssociated;
inline constexpr StatusCode CONNECTION_INVALID = StatusCode::kConnectionInvalid;
inline constexpr StatusCode CONNECTION_ACTIVE = StatusCode::kConnectionActive;
inline constexpr StatusCode NETWORK_UNREACHABLE = StatusCode::kNetworkUnreachable;
inline constexpr StatusCode HOST_UNREACHABLE = StatusCode::kHostUnreachable;
inline constexpr StatusCode CONNECTION_ABORTED = StatusCode::kConnectionAborted;
inline constexpr StatusCode NOT_SUPPORTED = StatusCode::kNotSupported;
inline constexpr StatusCode DEVICE_REMOVED = StatusCode::kDeviceRemoved;

}  // namespace nd::conformance
