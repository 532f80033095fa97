// SPDX-License-Identifier: Apache-2.0
// Lists the daemon half of every provider.
#include "provider/registry_cm.h"

#include <utility>

#include "provider/combined_cm.h"
#ifdef NDBROKER_HAVE_NETWORKDIRECT
#include "provider/networkdirect/cm/networkdirect_provider_win.h"
#endif
#include "provider/soft/cm/soft_provider.h"
#include "provider/verbs/cm/verbs_provider.h"

namespace nd::provider {

DaemonProviders MakeDaemonProviders() {
  return {
      std::make_shared<soft::SoftProvider>(),
      std::make_shared<verbs::VerbsProvider>(),
#ifdef NDBROKER_HAVE_NETWORKDIRECT
      std::make_shared<networkdirect::NetworkDirectProvider>(),
#endif
  };
}

Result<std::unique_ptr<ConnectionManager>> MakeConnectionManager(const DaemonProviders& providers,
                                                                 EventLoop& loop, CmSink& sink) {
  auto all = std::make_unique<CombinedCm>(sink);
  for (const std::shared_ptr<DaemonProvider>& provider : providers) {
    Result<std::unique_ptr<ConnectionManager>> manager = provider->Make(loop, all->NextSink());
    if (!manager.ok()) return manager.status();
    if (manager.value() != nullptr) all->Add(std::move(manager).value());
  }
  return std::unique_ptr<ConnectionManager>(std::move(all));
}

}  // namespace nd::provider
