// SPDX-License-Identifier: Apache-2.0
// The client half of the soft provider: iWARP over TCP and shared memory, without RDMA support of the kernel.
#pragma once

#include <memory>

#include "provider/qp.h"
#include "provider/soft/qp/memory.h"

namespace nd::provider::soft {

// INSUFFICIENT_RESOURCES when the table of registered memory cannot be made.
Result<std::shared_ptr<Device>> MakeSoftDevice(const AdapterInfo& adapter, const DeviceOptions& options,
                                               const Tuning& tuning = {});

}  // namespace nd::provider::soft
