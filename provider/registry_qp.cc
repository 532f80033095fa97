// SPDX-License-Identifier: Apache-2.0
// Names every provider's client half.
#include "provider/registry_qp.h"

#include "provider/soft/qp/soft_device.h"
#ifdef NDBROKER_HAVE_VERBS
#include "provider/verbs/qp/verbs_device.h"
#endif

namespace nd::provider {

Result<std::shared_ptr<Device>> OpenDevice(const AdapterInfo& adapter, const DeviceOptions& options) {
  if (adapter.provider == "soft") return soft::MakeSoftDevice(adapter, options);
#ifdef NDBROKER_HAVE_VERBS
  if (adapter.provider == "verbs") return verbs::MakeVerbsDevice(adapter, options);
#endif
  return Status{StatusCode::kNotSupported, "adapter " + adapter.name + " belongs to provider '" +
                                               adapter.provider + "', which this library was built without"};
}

}  // namespace nd::provider
