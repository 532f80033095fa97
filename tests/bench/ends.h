// SPDX-License-Identifier: Apache-2.0
// The two measured processes; both functions return the exit code.
#pragma once

#include "tests/bench/options.h"

namespace nd::perf {

// Listens, reports "ready IP:PORT", serves one run.
int RunServer(const Options& options);
// Connects, measures, reports the numbers.
int RunClient(const Options& options);

}  // namespace nd::perf
