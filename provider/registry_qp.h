// SPDX-License-Identifier: Apache-2.0
// The explicit list of providers, client half.
#pragma once

#include <memory>

#include "provider/qp.h"

namespace nd::provider {

// The device behind an adapter that the broker offered. NOT_SUPPORTED: a provider this build has not.
Result<std::shared_ptr<Device>> OpenDevice(const AdapterInfo& adapter, const DeviceOptions& options);

}  // namespace nd::provider
