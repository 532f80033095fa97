// SPDX-License-Identifier: Apache-2.0
// Names every provider's daemon half.
#include "provider/registry_cm.h"

#include <utility>

#include "provider/combined_cm.h"
#include "provider/soft/cm/soft_cm.h"
#ifdef NDBROKER_HAVE_VERBS
#include "provider/verbs/cm/make_verbs_cm.h"
#endif

namespace nd::provider {

Result<std::unique_ptr<ConnectionManager>> MakeConnectionManager(const ManagerOptions& options, EventLoop& loop,
                                                                 CmSink& sink) {
  auto all = std::make_unique<CombinedCm>(sink);
  auto soft = soft::MakeSoftCm(options.soft, loop, all->NextSink());
  if (!soft.ok()) return soft.status();
  all->Add(std::move(soft).value());
#ifdef NDBROKER_HAVE_VERBS
  if (options.verbs.enabled) all->Add(verbs::MakeVerbsCm(options.verbs, loop, all->NextSink()));
#endif
  return std::unique_ptr<ConnectionManager>(std::move(all));
}

}  // namespace nd::provider
