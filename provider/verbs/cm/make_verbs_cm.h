// SPDX-License-Identifier: Apache-2.0
// Makes the daemon half of verbs without including its headers.
#pragma once

#include <memory>

#include "base/event_loop.h"
#include "provider/cm.h"
#include "provider/verbs/cm/options.h"

namespace nd::provider::verbs {

// Never fails. Without a device it has no adapters until a device appears. `loop` and `sink` must outlive it.
std::unique_ptr<ConnectionManager> MakeVerbsCm(const Options& options, EventLoop& loop, CmSink& sink);

}  // namespace nd::provider::verbs
