// SPDX-License-Identifier: Apache-2.0
// Checks invariants of this program. A violation ends the process, because later frames would be wrong.
#pragma once

namespace nd::provider::soft::wire {

[[noreturn]] void DieOnFailedCheck(const char* rule, const char* file, int line);

// The default arguments name the caller. clang 14 supports them but not std::source_location.
inline void Check(bool holds, const char* rule, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!holds) [[unlikely]]
    DieOnFailedCheck(rule, file, line);
}

}  // namespace nd::provider::soft::wire
