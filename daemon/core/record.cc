// SPDX-License-Identifier: Apache-2.0
// The names in the record of a connection.
#include "daemon/core/record.h"

#include <array>

namespace nd::core {

const char* PhaseName(Phase phase) {
  static constexpr std::array<const char*, kPhases> kNames = {"queue",   "connect", "reply",    "complete",
                                                              "deliver", "accept",  "establish"};
  return kNames[static_cast<std::size_t>(phase)];
}

const char* OutcomeName(ConnectionRecord::Outcome outcome) {
  static constexpr std::array kNames = {"established", "closed", "failed", "broken", "killed", "died"};
  return kNames[static_cast<std::size_t>(outcome)];
}

}  // namespace nd::core
