// SPDX-License-Identifier: Apache-2.0
// Out of line, so that a check costs the caller one comparison.
#include "provider/soft/wire/check.h"

#include <cstdio>
#include <cstdlib>

namespace nd::provider::soft::wire {

void DieOnFailedCheck(const char* rule, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, rule);
  std::abort();
}

}  // namespace nd::provider::soft::wire
