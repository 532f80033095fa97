// SPDX-License-Identifier: Apache-2.0
// The suite has one user on Windows, so that the case which calls these is excepted (ND_NEEDS_USERS).
#include "tests/conformance/intruder.h"

#include <cstdio>
#include <cstdlib>

namespace nd::conformance {

int WaysInto(pid_t /*owner*/) {
  std::fputs("nd_conformance: there is no second user\n", stderr);
  std::abort();
}

void ExpectFixedMemory(pid_t owner) {
  static_cast<void>(WaysInto(owner));
}

}  // namespace nd::conformance
