// SPDX-License-Identifier: Apache-2.0
// Checks invariants of the core. A violation ends the process, because continuing would corrupt leases. Never
// used for a value that a client, a peer or a file determines.
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
