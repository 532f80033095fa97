// SPDX-License-Identifier: Apache-2.0
// Describes an RDMA port as an AdapterInfo whose maxima hold together: a queue pair with every maximum at
// once can be created. A device reports each maximum on its own, so this file tries combinations.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "nd/types.h"

namespace nd::provider::verbs {

// The size of private data that the wire carries. InfiniBand has a field of fixed size, see
// cm/private_data.h.
inline constexpr std::uint32_t kIwarpPrivateData = 251;
inline constexpr std::uint32_t kIbCallerData = 54;
inline constexpr std::uint32_t kIbCalleeData = 146;
// The field in rdma_conn_param has one byte.
inline constexpr std::uint32_t kMaxReadLimit = 255;

inline bool IsIwarp(const ibv_context& context) {
  return context.device->transport_type == IBV_TRANSPORT_IWARP;
}

// Creates and destroys a few queues on the device and fills everything but name and addresses. Returns
// DEVICE_NOT_READY or INSUFFICIENT_RESOURCES, with the cause, when the device does not answer.
Result<AdapterInfo> ProbeAdapter(ibv_context* context, std::uint8_t port);

// The status for a failed open of the device node of `device`: DEVICE_NOT_READY, ACCESS_DENIED or
// INSUFFICIENT_RESOURCES. The message names the remedy.
Status OpenFailure(const std::string& device, int error);
// The status for a failed attempt to pin `bytes` of memory.
Status PinFailure(std::uint64_t bytes, int error);

}  // namespace nd::provider::verbs
