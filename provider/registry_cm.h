// SPDX-License-Identifier: Apache-2.0
// The list of providers, daemon half, and one ConnectionManager for all of them.
#pragma once

#include <memory>

#include "provider/daemon_provider.h"

namespace nd::provider {

// Every provider with its default settings.
DaemonProviders MakeDaemonProviders();

// Opens the configured adapters of all providers. SHARING_VIOLATION (names the TCP port that is taken),
// INVALID_ADDRESS, INSUFFICIENT_RESOURCES. `loop` and `sink` must outlive the manager.
Result<std::unique_ptr<ConnectionManager>> MakeConnectionManager(const DaemonProviders& providers,
                                                                 EventLoop& loop, CmSink& sink);

}  // namespace nd::provider
