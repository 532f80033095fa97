// SPDX-License-Identifier: Apache-2.0
// Who holds which port, in the form that outlives the broker's process. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "nd/types.h"

namespace nd::core {

enum class PortKind : std::uint8_t { kListener, kConnector, kSharedEndpoint, kLease };

// A process, as the kernel names it; the time of its birth tells it from a later one with the same number.
struct Process {
  std::uint32_t uid = 0, pid = 0;
  std::uint64_t born = 0;  // Start time in clock ticks since boot; 0: unknown.
  friend bool operator==(const Process&, const Process&) = default;
};

// `holder` has `local` on `adapter`. After a broker's unexpected end the next one keeps the port for that
// process alone until it comes back for it or the grace time ends.
struct Lease {
  std::string adapter;
  Address local;
  PortKind kind = PortKind::kConnector;  // What held it; never kLease.
  Process holder;
  friend bool operator==(const Lease&, const Lease&) = default;
};

}  // namespace nd::core
