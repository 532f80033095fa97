// SPDX-License-Identifier: Apache-2.0
// Names every provider's client half.
#include "provider/registry_qp.h"

#include "provider/soft/qp/soft_device.h"

namespace nd::provider {

Result<std::shared_ptr<Device>> OpenDevice(const AdapterInfo& adapter, const DeviceOptions& options) {
  if (adapter.provider == "soft") return soft::MakeSoftDevice(adapter, options);
  return Status{StatusCode::kNotSupported, "adapter " + adapter.name + " belongs to provider '" +
                                               adapter.provider + "', which this library was built without"};
}

}  // namespace nd::provider
