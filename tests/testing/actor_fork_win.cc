// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/testing/actor_state.h"

namespace nd::testing {

void ActorState::Fork(Adapter& /*adapter*/, const std::string& /*directory*/, Writer& /*out*/) {
  std::fputs("nd_actor: Windows has no fork; the case asks HasFork() first\n", stderr);
  std::abort();
}

}  // namespace nd::testing
