// SPDX-License-Identifier: Apache-2.0
// One opened device with one protection domain, shared by everything that was made from it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "nd/types.h"
#include "provider/verbs/nldev.h"

namespace nd::provider::verbs {

// Counts fork()s into this process: what the parent made must not be touched in the child, because both
// share the descriptors through which it would be destroyed.
std::uint32_t ForkCount();

class Maker;

struct Context {
  Context();
  ~Context();  // Nothing in a forked child.

  bool forked() const { return fork_count != ForkCount(); }
  // Runs `make` on a thread that lives as long as the process or this context: a kernel up to 6.1 remembers
  // the thread that made a queue pair as its owner and forgets the owner when that thread ends, and the
  // broker connects no queue pair without one. Waits for it.
  void OnLastingThread(const std::function<void()>& make);
  // Nldev::CheckQpOwner() for this process.
  Status CheckOwn(std::uint32_t qp_number);
  // Reads the device's asynchronous events; never blocks. A completion queue that overran is marked lost.
  void DrainAsyncEvents();

  ibv_context* device = nullptr;
  ibv_pd* pd = nullptr;
  std::uint8_t port = 1;
  std::uint32_t device_index = 0;  // The kernel's.
  bool iwarp = false;
  bool windows = false;
  AdapterInfo info;
  std::uint32_t fork_count = ForkCount();
  std::atomic<std::uint32_t> next_generation{1};

 private:
  std::unique_ptr<Maker> maker_;  // When a thread other than the process's first one has made something.
  std::mutex making_;
  Nldev nldev_;
  std::mutex asking_;
};

}  // namespace nd::provider::verbs
