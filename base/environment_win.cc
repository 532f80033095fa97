// SPDX-License-Identifier: Apache-2.0
// A process of Windows has the rights of the user who started it.
#include "base/environment.h"

#include <cstdlib>

namespace nd {

const char* EnvironmentVariable(const char* name) {
  return std::getenv(name);
}

}  // namespace nd
