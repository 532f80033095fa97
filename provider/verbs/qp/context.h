// SPDX-License-Identifier: Apache-2.0
// One opened device with one protection domain, shared by everything that was made from it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "nd/types.h"

namespace nd::provider::verbs {

// Counts fork()s into this process: what the parent made must not be touched in the child, because both
// share the descriptors through which it would be destroyed.
std::uint32_t ForkCount();

struct Context {
  ~Context();  // Nothing in a forked child.

  bool forked() const { return fork_count != ForkCount(); }
  // Reads the device's asynchronous events; never blocks. A completion queue that overran is marked lost.
  void DrainAsyncEvents();

  ibv_context* device = nullptr;
  ibv_pd* pd = nullptr;
  std::uint8_t port = 1;
  bool iwarp = false;
  bool windows = false;
  AdapterInfo info;
  std::uint32_t fork_count = ForkCount();
  std::atomic<std::uint32_t> next_generation{1};
};

}  // namespace nd::provider::verbs
