// SPDX-License-Identifier: Apache-2.0
// Our own invariants: a violation ends the process, because whatever follows would be wrong on the wire.
#pragma once

namespace nd::provider::soft::wire {

[[noreturn]] void DieOnFailedCheck(const char* rule, const char* file, int line);

// The defaults name the caller; clang 14 has them, but not std::source_location.
inline void Check(bool holds, const char* rule, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!holds) [[unlikely]]
    DieOnFailedCheck(rule, file, line);
}

}  // namespace nd::provider::soft::wire
