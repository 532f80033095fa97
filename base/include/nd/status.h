// SPDX-License-Identifier: Apache-2.0
// The one status type of ndbroker, from the core to the application.
//
// Codes are those of Network Direct and keep their NTSTATUS values. A Status also carries the cause, as a
// machine-readable Detail and as one sentence for a person.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace nd {

enum class StatusCode : std::uint32_t {
  kSuccess = 0x00000000,
  kPending = 0x00000103,  // Accepted; exactly one completion follows. Never an error.
  kBufferOverflow = 0x80000005,
  kDeviceBusy = 0x80000011,
  kNoMoreEntries = 0x8000001A,
  kUnsuccessful = 0xC0000001,
  kAccessViolation = 0xC0000005,
  kInvalidHandle = 0xC0000008,
  kInvalidParameter = 0xC000000D,
  kInvalidDeviceRequest = 0xC0000010,
  kNoMemory = 0xC0000017,
  kAccessDenied = 0xC0000022,
  kBufferTooSmall = 0xC0000023,
  kInvalidParameterMix = 0xC0000030,
  kDataOverrun = 0xC000003C,
  kSharingViolation = 0xC0000043,
  kInsufficientResources = 0xC000009A,
  kDeviceNotReady = 0xC00000A3,
  kIoTimeout = 0xC00000B5,
  kNotSupported = 0xC00000BB,
  kBadNetworkName = 0xC00000CC,
  kInternalError = 0xC00000E5,
  kInvalidParameter1 = 0xC00000EF,
  kInvalidParameter2 = 0xC00000F0,
  kInvalidParameter3 = 0xC00000F1,
  kInvalidParameter4 = 0xC00000F2,
  kInvalidParameter5 = 0xC00000F3,
  kInvalidParameter6 = 0xC00000F4,
  kInvalidParameter7 = 0xC00000F5,
  kInvalidParameter8 = 0xC00000F6,
  kInvalidParameter9 = 0xC00000F7,
  kInvalidParameter10 = 0xC00000F8,
  kCanceled = 0xC0000120,
  kRemoteError = 0xC000013D,
  kInvalidAddress = 0xC0000141,
  kInvalidDeviceState = 0xC0000184,
  kInvalidBufferSize = 0xC0000206,
  kTooManyAddresses = 0xC0000209,
  kAddressAlreadyExists = 0xC000020A,
  kConnectionDisconnected = 0xC000020C,
  kConnectionRefused = 0xC0000236,
  kAddressAlreadyAssociated = 0xC0000238,
  kAddressNotAssociated = 0xC0000239,
  kConnectionInvalid = 0xC000023A,
  kConnectionActive = 0xC000023B,
  kNetworkUnreachable = 0xC000023C,
  kHostUnreachable = 0xC000023D,
  kConnectionAborted = 0xC0000241,
  kDeviceRemoved = 0xC00002B6,
};

// The finer cause behind a code. Values cross process and host boundaries: append only.
enum class Detail : std::uint8_t {
  kNone = 0,
  kNoListener = 1,       // REFUSED: there is no listener on that port.
  kBacklogFull = 2,      // REFUSED: the listener's queue of unanswered requests is full.
  kPaused = 3,           // REFUSED: the listener is paused.
  kPeerRejected = 4,     // REFUSED / ABORTED: the peer application called Reject; private data may follow.
  kListenerClosed = 5,   // REFUSED: the listener closed while the request waited.
  kPeerWithdrew = 6,     // ABORTED: the other side cancelled or closed.
  kPeerProcessDied = 7,  // ABORTED / disconnect: the peer process ended without Disconnect.
  kPeerBrokerLost = 8,   // The other host's broker went away.
  kTransport = 9,        // The transport failed; `native` is the errno.
  kWireTimeout = 10,     // The other side did not answer a wire message in time.
  kProtocol = 11,        // The other side broke the wire protocol.
  kPolicy = 12,          // ACCESS_DENIED / REFUSED by this host's or the peer host's policy.
  kQuota = 13,           // INSUFFICIENT_RESOURCES: a quota of this user is used up.
  kLocalAdministrator = 14,
  kAdapterDisabled = 15,
  kBrokerUnreachable = 16,  // The broker is not running or the session with it broke.
  kStaleConnection = 17,    // REFUSED: the peer still holds a connection with the same addresses.
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // SUCCESS
  Status(StatusCode code, std::string message = {}, Detail detail = Detail::kNone, std::int32_t native = 0)
      : code_(code), detail_(detail), native_(native), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kSuccess; }
  bool pending() const { return code_ == StatusCode::kPending; }
  StatusCode code() const { return code_; }
  Detail detail() const { return detail_; }
  // Transport code behind `detail` (an errno on soft, a reject reason on verbs), or 0.
  std::int32_t native() const { return native_; }
  // One sentence for a person: what is wrong, what was expected, what to do. May be empty.
  const std::string& message() const { return message_; }
  // True when the same call on the same object may succeed later, as after NETWORK_UNREACHABLE.
  bool retryable() const;
  // "CONNECTION_REFUSED (peer rejected): sentence".
  std::string ToString() const;

  friend bool operator==(const Status& a, StatusCode b) { return a.code_ == b; }

 private:
  StatusCode code_ = StatusCode::kSuccess;
  Detail detail_ = Detail::kNone;
  std::int32_t native_ = 0;
  std::string message_;
};

// The name without a prefix, as "CONNECTION_REFUSED"; "UNKNOWN" for a value that is not a code.
std::string_view Name(StatusCode code);
std::string_view Name(Detail detail);
// The inverse of Name(); empty for an unknown name.
std::optional<StatusCode> StatusCodeFromName(std::string_view name);
// True for a value that Name() knows; checks numbers that crossed a process boundary.
bool IsKnown(StatusCode code);

// A value, or the Status that says why there is no value. That Status is never SUCCESS.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by intent
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by intent
  Result(StatusCode code, std::string message = {}) : status_(code, std::move(message)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  StatusCode code() const { return status_.code(); }
  // Requires ok(); otherwise prints the status on stderr and ends the program.
  T& value() & { return Checked(), *value_; }
  const T& value() const& { return Checked(), *value_; }
  T value() && { return Checked(), std::move(*value_); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  void Checked() const;
  std::optional<T> value_;
  Status status_;
};

namespace internal {
[[noreturn]] void DieOnBadResult(const Status& status);
}

template <typename T>
void Result<T>::Checked() const {
  if (!value_) internal::DieOnBadResult(status_);
}

}  // namespace nd
