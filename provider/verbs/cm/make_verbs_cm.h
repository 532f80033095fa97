// SPDX-License-Identifier: Apache-2.0
// The daemon half of verbs without its parts.
#pragma once

#include <memory>

#include "base/event_loop.h"
#include "provider/cm.h"
#include "provider/verbs/cm/options.h"

namespace nd::provider::verbs {

// Never fails: without devices it has no adapters, until one comes. `loop` and `sink` outlive it.
std::unique_ptr<ConnectionManager> MakeVerbsCm(const Options& options, EventLoop& loop, CmSink& sink);

}  // namespace nd::provider::verbs
