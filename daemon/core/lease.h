// SPDX-License-Identifier: Apache-2.0
// Leases: the holders of ports, in the form that survives the broker. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nd/types.h"

namespace nd::core {

enum class PortKind : std::uint8_t { kListener, kConnector, kSharedEndpoint, kLease };

// For people: "shared endpoint".
inline const char* Name(PortKind kind) {
  static constexpr std::array kNames = {"listener", "connector", "shared endpoint", "lease"};
  return kNames[static_cast<std::size_t>(kind)];
}

// A process as the kernel identifies it; the start time distinguishes it from a later one with the same pid.
struct Process {
  std::uint32_t uid = 0, pid = 0;
  std::uint64_t born = 0;  // Start time in clock ticks since boot; 0: unknown.
  friend bool operator==(const Process&, const Process&) = default;
};

// Returns true when `who` may use what is kept for `holder`: the process is the same, or the process of
// `holder` is unknown (pid 0) and the user is the same.
inline bool IsKeptFor(const Process& holder, const Process& who) {
  return holder == who || (holder.pid == 0 && holder.uid == who.uid);
}

// `holder` has `local` on `adapter`. After the unexpected end of a broker the next one keeps the port for
// that process until it returns or the grace time ends.
struct Lease {
  std::string adapter;
  Address local;
  PortKind kind = PortKind::kConnector;  // The kind of the holder; never kLease.
  Process holder;
  friend bool operator==(const Lease&, const Lease&) = default;
};

}  // namespace nd::core
