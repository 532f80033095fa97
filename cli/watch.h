// SPDX-License-Identifier: Apache-2.0
// --watch: the same look at the broker again and again.
//
// On a terminal each look replaces the last one and marks what changed. Machine formats become a stream, one
// whole snapshot in each line (json, jsonl) or document (yaml). Runs until interrupted, or --count looks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/command.h"
#include "cli/context.h"

namespace nd::cli {

struct WatchOptions {
  std::string interval;  // The text of the option; empty: do not watch.
  std::uint64_t count = 0;
  bool on() const { return !interval.empty(); }
};

// --watch[=S] and --count N.
void AddWatchOptions(Command verb, WatchOptions* options);

// The output of one round: a table for people and values for programs.
struct Snapshot {
  Table table;
  bool headers = true;
  Value document;  // With its envelope.
};

// Seconds between looks; a usage error for less than 0.1, and for a format that cannot be a stream.
Failure CheckWatch(const Context& context, const WatchOptions& options, double* seconds);

Failure Watch(Context& context, const WatchOptions& options, const std::function<Failure(Snapshot*)>& look);

}  // namespace nd::cli
