// SPDX-License-Identifier: Apache-2.0
// The limits of a soft adapter. Both halves report and enforce them.
#pragma once

#include <cstdint>

#include "nd/types.h"

namespace nd::provider::soft {

inline constexpr std::uint32_t kMaxSge = 16;            // Initiator, receive and Read.
inline constexpr std::uint32_t kMaxQueueDepth = 16384;  // Receive, initiator, shared receive.
inline constexpr std::uint32_t kMaxCompletionQueueDepth = 1u << 20;
inline constexpr std::uint32_t kMaxTransferLength = 1u << 30;  // Bytes of one request.
inline constexpr std::uint64_t kMaxRegistrationSize = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kMaxWindowSize = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kMaxInlineSize = 256;
inline constexpr std::uint32_t kInlineRequestThreshold = 256;
inline constexpr std::uint32_t kLargeRequestThreshold = 65536;
// Reads in flight in either direction: the maximum of the 14-bit fields of MPA revision 2. Arrays are sized
// by the negotiated limits; an adapter offers 128 unless it is configured otherwise.
inline constexpr std::uint32_t kMaxReadLimit = 16382;

// Not a registered vendor: "NDB" as an OUI has the bit of locally administered identifiers. The device id
// means this provider. Neither may change.
inline constexpr std::uint32_t kVendorId = 0x4E4442;
inline constexpr std::uint32_t kDeviceId = 1;

// Fills every field that does not depend on configuration: technology, flags and the limits above. Name,
// ids, private data limits and addresses are the caller's; so are read limits lower than kMaxReadLimit.
inline void FillSoftAdapterInfo(AdapterInfo* info) {
  info->provider = "soft";
  info->technology = RdmaTechnology::kIwarp;
  info->vendor_id = kVendorId;
  info->device_id = kDeviceId;
  info->flags = kAdapterInOrderDma | kAdapterReadSinkNotRequired | kAdapterMultiEngine | kAdapterCqResize |
                kAdapterLoopback;
  info->max_registration_size = kMaxRegistrationSize;
  info->max_window_size = kMaxWindowSize;
  info->max_initiator_sge = kMaxSge;
  info->max_receive_sge = kMaxSge;
  info->max_read_sge = kMaxSge;
  info->max_transfer_length = kMaxTransferLength;
  info->max_inline_data_size = kMaxInlineSize;
  info->max_inbound_read_limit = kMaxReadLimit;
  info->max_outbound_read_limit = kMaxReadLimit;
  info->max_receive_queue_depth = kMaxQueueDepth;
  info->max_initiator_queue_depth = kMaxQueueDepth;
  info->max_shared_receive_queue_depth = kMaxQueueDepth;
  info->max_completion_queue_depth = kMaxCompletionQueueDepth;
  info->inline_request_threshold = kInlineRequestThreshold;
  info->large_request_threshold = kLargeRequestThreshold;
}

}  // namespace nd::provider::soft
