// SPDX-License-Identifier: Apache-2.0
// Lists the client half of every provider.
#include "provider/registry_qp.h"

#ifdef NDBROKER_HAVE_NETWORKDIRECT
#include "provider/networkdirect/qp/networkdirect_device_win.h"
#endif
#include "provider/soft/qp/soft_device.h"
#ifdef NDBROKER_HAVE_VERBS
#include "provider/verbs/qp/verbs_device.h"
#endif

namespace nd::provider {
namespace {

constexpr ClientProvider kProviders[] = {
    {"soft", [](const AdapterInfo& adapter,
                const DeviceOptions& options) { return soft::MakeSoftDevice(adapter, options); }},
#ifdef NDBROKER_HAVE_VERBS
    {"verbs", verbs::MakeVerbsDevice},
#endif
#ifdef NDBROKER_HAVE_NETWORKDIRECT
    {"networkdirect", networkdirect::OpenNetworkDirectDevice},
#endif
};

}  // namespace

std::span<const ClientProvider> ClientProviders() {
  return kProviders;
}

Result<std::shared_ptr<Device>> OpenDevice(const AdapterInfo& adapter, const DeviceOptions& options,
                                           std::span<const ClientProvider> providers) {
  for (const ClientProvider& provider : providers) {
    if (provider.name == adapter.provider) return provider.open(adapter, options);
  }
  return Status{StatusCode::kNotSupported, "adapter " + adapter.name + " belongs to provider '" +
                                               adapter.provider + "', which this library was built without"};
}

}  // namespace nd::provider
