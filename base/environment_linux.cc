// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <stdlib.h>

namespace nd {

const char* EnvironmentVariable(const char* name) {
  return ::secure_getenv(name);
}

}  // namespace nd
