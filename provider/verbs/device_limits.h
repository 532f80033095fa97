// SPDX-License-Identifier: Apache-2.0
// What an RDMA port can do, as an AdapterInfo whose maxima hold together: a queue pair with every maximum at
// once can be made. Devices report each maximum alone, so this tries.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "nd/types.h"

namespace nd::provider::verbs {

// Private data, by what the wire carries (behaviour of InfiniBand: a fixed field, see cm/private_data.h).
inline constexpr std::uint32_t kIwarpPrivateData = 251;
inline constexpr std::uint32_t kIbCallerData = 54;
inline constexpr std::uint32_t kIbCalleeData = 146;
// One byte of rdma_conn_param.
inline constexpr std::uint32_t kMaxReadLimit = 255;

inline bool IsIwarp(const ibv_context& context) {
  return context.device->transport_type == IBV_TRANSPORT_IWARP;
}

// Makes and destroys a few queues on the device. Everything but name and addresses is filled.
// DEVICE_NOT_READY or INSUFFICIENT_RESOURCES with the cause when the device will not answer.
Result<AdapterInfo> ProbeAdapter(ibv_context* context, std::uint8_t port);

// Why opening /dev/infiniband/... for `device` failed: DEVICE_NOT_READY, ACCESS_DENIED or
// INSUFFICIENT_RESOURCES with the remedy in the sentence.
Status OpenFailure(const std::string& device, int error);
// The same for pinning `bytes` of memory.
Status PinFailure(std::uint64_t bytes, int error);

}  // namespace nd::provider::verbs
