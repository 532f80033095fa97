// SPDX-License-Identifier: Apache-2.0
// The client half of verbs: queues, queue pairs and memory of an RDMA device, inside this process.
#pragma once

#include <memory>

#include "provider/qp.h"

namespace nd::provider::verbs {

// Opens the device behind an adapter that the broker offered. DEVICE_NOT_READY, ACCESS_DENIED or
// INSUFFICIENT_RESOURCES; the message names the remedy.
Result<std::shared_ptr<Device>> MakeVerbsDevice(const AdapterInfo& adapter, const DeviceOptions& options);

}  // namespace nd::provider::verbs
