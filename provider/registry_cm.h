// SPDX-License-Identifier: Apache-2.0
// The explicit list of providers, daemon half: one ConnectionManager that speaks for all of them.
#pragma once

#include <memory>

#include "base/event_loop.h"
#include "provider/cm.h"
#include "provider/soft/cm/options.h"
#include "provider/verbs/cm/options.h"

namespace nd::provider {

struct ManagerOptions {
  soft::Options soft;
  verbs::Options verbs;  // Without effect in a build without the provider.
};

// Binds what the options ask for. SHARING_VIOLATION (names the TCP port that is taken), INVALID_ADDRESS,
// INSUFFICIENT_RESOURCES. `loop` and `sink` must outlive the manager.
Result<std::unique_ptr<ConnectionManager>> MakeConnectionManager(const ManagerOptions& options, EventLoop& loop,
                                                                 CmSink& sink);

}  // namespace nd::provider
