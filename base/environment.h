// SPDX-License-Identifier: Apache-2.0
// What the environment says, for code that is linked into applications.
#pragma once

#include <cstdlib>

namespace nd {

// Null: not set, or the process has more rights than whoever started it (set-user-ID, file capabilities),
// whose environment must not say which broker it trusts. Any thread, as long as none changes the environment.
inline const char* EnvironmentVariable(const char* name) {
  return ::secure_getenv(name);
}

}  // namespace nd
