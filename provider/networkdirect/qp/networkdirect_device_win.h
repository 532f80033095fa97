// SPDX-License-Identifier: Apache-2.0
// The client half over an adapter of Network Direct of the system.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "provider/networkdirect/com_win.h"
#include "provider/networkdirect/messages.h"
#include "provider/qp.h"

namespace nd::provider::networkdirect {

// Opens an adapter through its DLL; replaced in tests.
using AdapterOpener = std::function<Result<Com<spi::IND2Adapter>>(const std::string& dll,
                                                                  const ClassId& class_id, std::uint64_t id)>;
Result<Com<spi::IND2Adapter>> OpenAdapterOfDll(const std::string& dll, const ClassId& class_id,
                                               std::uint64_t id);

// A device that has not met its daemon half; every object needs that first.
std::shared_ptr<Device> MakeNetworkDirectDevice(const AdapterInfo& adapter, AdapterOpener open);
// For the list of providers.
Result<std::shared_ptr<Device>> OpenNetworkDirectDevice(const AdapterInfo& adapter,
                                                        const DeviceOptions& options);

}  // namespace nd::provider::networkdirect
