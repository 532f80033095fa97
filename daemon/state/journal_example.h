// SPDX-License-Identifier: Apache-2.0
// A boot, a time and leases for tests of journals.
#pragma once

#include <string>

#include "daemon/state/journal.h"

namespace nd::state {

inline constexpr char kBoot[] = "4b1c1f52-6a43-4f6e-9d1c-0a86a2f3b7aa";
inline constexpr Time kStart{std::chrono::hours(5)};

inline core::Lease MakeLease(const std::string& local, std::uint32_t pid,
                             core::PortKind kind = core::PortKind::kListener) {
  return {"soft0", Address::Parse(local).value(), kind, {1000, pid, 77'000 + pid}};
}

}  // namespace nd::state
