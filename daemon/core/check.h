// SPDX-License-Identifier: Apache-2.0
// The core's own invariants: a broken one ends the process, because going on would corrupt leases.
// Never used on anything that a client, a peer or a file decides.
#pragma once

#include <cstdio>
#include <cstdlib>

#define ND_CORE_CHECK(condition)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
