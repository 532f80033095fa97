// SPDX-License-Identifier: Apache-2.0
// The checks of arguments that every provider's queue pairs make, and their answers (docs/status.md, data
// path). The same mistake gets the same answer on every provider, because the answers are here only.
//
// Pure functions, inline because posts call them. The order of a post's checks: CheckFlags, the process
// (InParent), CheckSges, CheckInline, then CheckPostable.
#pragma once

#include <cstdint>
#include <span>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/qp.h"

namespace nd::provider {

// The memory of an atomic operation: one aligned integer.
inline constexpr std::uint32_t kAtomicSize = 8;

// The status for a call in a forked child: the objects belong to its parent.
inline Status InParent() {
  return {StatusCode::kConnectionInvalid, "the device and its objects belong to the parent process"};
}

// Returns true when the given queues belong to the adapter. An absent `srq` is accepted.
struct OwnQueues {
  bool receive_cq, initiator_cq, srq;
};

inline Status CheckOptions(const QpOptions& options, const AdapterInfo& info, OwnQueues own) {
  const auto bad = [](const char* what) { return Status(StatusCode::kInvalidParameter, what); };
  if (!own.receive_cq) return bad("receive_cq is not of this adapter");
  if (!own.initiator_cq) return bad("initiator_cq is not of this adapter");
  if (!own.srq) return bad("srq is not of this adapter");
  if (!options.srq && (options.receive_depth == 0 || options.receive_depth > info.max_receive_queue_depth)) {
    return bad("receive_depth is 0 or above the adapter's maximum");
  }
  if (options.initiator_depth == 0 || options.initiator_depth > info.max_initiator_queue_depth) {
    return bad("initiator_depth is 0 or above the adapter's maximum");
  }
  if (options.max_receive_sge > info.max_receive_sge) {
    return bad("max_receive_sge is above the adapter's maximum");
  }
  if (options.max_initiator_sge > info.max_initiator_sge) {
    return bad("max_initiator_sge is above the adapter's maximum");
  }
  if (options.inline_size > info.max_inline_data_size) {
    return bad("inline_size is above the adapter's maximum");
  }
  return {};
}

inline Status CheckSharedQueue(std::uint32_t depth, std::uint32_t max_sge, const AdapterInfo& info) {
  if (depth == 0 || depth > info.max_shared_receive_queue_depth) {
    return {StatusCode::kInvalidParameter1, "the depth is 0 or above max_shared_receive_queue_depth"};
  }
  if (max_sge > info.max_receive_sge) {
    return {StatusCode::kInvalidParameter2, "max_sge is above the adapter's max_receive_sge"};
  }
  return {};
}

// `type` is not kReceive, which has no flags. The code names the position of the argument.
inline Status CheckFlags(RequestType type, std::uint32_t flags) {
  constexpr std::uint32_t kAll = kOpSilentSuccess | kOpReadFence, kRights = kOpAllowRead | kOpAllowWrite;
  std::uint32_t known = kAll;
  StatusCode code = StatusCode::kInvalidParameter6;
  if (type == RequestType::kSend) {
    known = kAll | kOpSendAndSolicit | kOpInline;
    code = StatusCode::kInvalidParameter4;
  }
  if (type == RequestType::kWrite) known = kAll | kOpInline;
  if (type == RequestType::kBind) known = kAll | kRights;
  if (type == RequestType::kInvalidate) code = StatusCode::kInvalidParameter3;
  if ((flags & ~known) != 0) [[unlikely]]
    return {code, "a flag is set that this request does not have"};
  if (type == RequestType::kBind && (flags & kRights) == 0)
    return {code, "a window without a right is of no use; set kOpAllowRead or kOpAllowWrite"};
  return {};
}

// *length: the bytes of all elements.
inline Status CheckSges(std::span<const Sge> sges, std::uint32_t max_sge, std::uint32_t max_bytes,
                        std::uint32_t* length) {
  if (sges.size() > max_sge) [[unlikely]] {
    return {StatusCode::kDataOverrun, "more scatter/gather elements than the queue was made for"};
  }
  std::uint64_t total = 0;
  for (const Sge& sge : sges) total += sge.length;
  if (total > max_bytes) [[unlikely]] {
    return {StatusCode::kBufferOverflow, "more bytes than the adapter's max_transfer_length"};
  }
  *length = static_cast<std::uint32_t>(total);
  return {};
}

// For a request with kOpInline. `length` is that of CheckSges().
inline Status CheckInline(std::span<const Sge> sges, std::uint32_t length, std::uint32_t inline_size) {
  if (length > inline_size) {
    return {StatusCode::kBufferOverflow, "more inline bytes than the queue pair was made for"};
  }
  for (const Sge& sge : sges) {
    if (sge.length != 0 && sge.address == nullptr) {
      return {StatusCode::kAccessViolation, "inline data at a null address"};
    }
  }
  return {};
}

// `result`: where the old value of an atomic operation goes.
inline Status CheckAtomic(const Sge& result, std::uint64_t remote_address) {
  if (result.length != kAtomicSize) {
    return {StatusCode::kInvalidParameter2, "the result of an atomic operation has 8 bytes"};
  }
  if (remote_address % kAtomicSize != 0) {
    return {StatusCode::kInvalidParameter3, "the address of an atomic operation is a multiple of 8"};
  }
  return {};
}
inline Status NoExtensions() {
  return {StatusCode::kNotSupported,
          "the peer knows no requests with immediate data and no atomic operations; its library or broker is "
          "older, or it is another implementation"};
}

// `full`: the initiator queue has no room for another request.
inline Status CheckPostable(RequestType type, bool connected, bool full, std::uint32_t read_outbound) {
  if (!connected) [[unlikely]]
    return {StatusCode::kConnectionInvalid, "the queue pair is not connected"};
  if (full) [[unlikely]]
    return {StatusCode::kNoMoreEntries, "the initiator queue is full"};
  const bool answered =
      type == RequestType::kRead || type == RequestType::kFetchAdd || type == RequestType::kCompareSwap;
  if (answered && read_outbound == 0) [[unlikely]]
    return {StatusCode::kInvalidDeviceRequest, "the negotiated outbound read limit is 0"};
  return {};
}

inline Status ReceiveQueueFull() {
  return {StatusCode::kNoMoreEntries, "the receive queue is full"};
}
inline Status SharedReceiveQueueFull() {
  return {StatusCode::kNoMoreEntries, "the shared receive queue is full"};
}
inline Status ReceivesAreShared() {
  return {StatusCode::kInvalidDeviceRequest, "receives go to the shared receive queue"};
}
// `code` names the position of the argument.
inline Status OtherAdaptersRegion() {
  return {StatusCode::kInvalidParameter2, "the region belongs to another adapter"};
}
inline Status OtherAdaptersWindow(StatusCode code) {
  return {code, "the window belongs to another adapter"};
}

}  // namespace nd::provider
