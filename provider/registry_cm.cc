// SPDX-License-Identifier: Apache-2.0
// Names every provider's daemon half.
#include "provider/registry_cm.h"

#include "provider/soft/cm/soft_cm.h"

namespace nd::provider {

Result<std::unique_ptr<ConnectionManager>> MakeConnectionManager(const ManagerOptions& options, EventLoop& loop,
                                                                 CmSink& sink) {
  return soft::MakeSoftCm(options.soft, loop, sink);
}

}  // namespace nd::provider
