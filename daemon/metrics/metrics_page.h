// SPDX-License-Identifier: Apache-2.0
// Writes the metrics of the broker in the text format of Prometheus. docs/operations.md has the table of
// metrics.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/metrics/observatory.h"
#include "daemon/ops/pulse.h"

namespace nd::service {

// Facts that are read where the page is made, not on the loop.
struct ProcessFacts {
  std::string version;
  double started_unix = 0, cpu_seconds = 0;
  std::uint64_t open_fds = 0, fd_limit = 0, resident_bytes = 0;
  std::vector<ops::Pulse::Member> threads;
};

// `per_connection`: the number of busiest connections whose counters are included.
std::string MetricsPage(const Picture& picture, const ProcessFacts& process, std::uint32_t per_connection);

}  // namespace nd::service
