// SPDX-License-Identifier: Apache-2.0
// The soft provider's daemon half: adapters over plain IP interfaces, iWARP on the wire, shared memory within
// the host. Loop thread only; never blocks.
#pragma once

#include <memory>

#include "base/event_loop.h"
#include "base/os/kept_sockets.h"
#include "provider/cm.h"
#include "provider/soft/cm/options.h"

namespace nd::provider::soft {

// Opens the configured adapters. SHARING_VIOLATION (a TCP port is taken), INVALID_ADDRESS (not an address of
// this host), INVALID_PARAMETER (the options contradict each other), ACCESS_DENIED, INSUFFICIENT_RESOURCES.
// `loop` and `sink` outlive the manager; its destructor closes every connection that was not handed over.
// `kept`: see DaemonProvider::KeepListeners.
Result<std::unique_ptr<ConnectionManager>> MakeSoftCm(const Options& options, EventLoop& loop, CmSink& sink,
                                                      os::KeptSockets* kept = nullptr);

}  // namespace nd::provider::soft
