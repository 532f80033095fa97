// SPDX-License-Identifier: Apache-2.0
// The broker's numbers in Prometheus' text format. docs/operations.md has the table of metrics.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/service/observatory.h"

namespace nd::service {

// What is read where the page is made, not on the loop.
struct ProcessFacts {
  std::string version;
  double started_unix = 0, cpu_seconds = 0;
  std::uint64_t open_fds = 0, fd_limit = 0, resident_bytes = 0;
};

// `per_connection`: also the counters of so many of the busiest connections.
std::string MetricsPage(const Picture& picture, const ProcessFacts& process, std::uint32_t per_connection);

}  // namespace nd::service
