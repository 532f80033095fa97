// SPDX-License-Identifier: Apache-2.0
// One opened device with one protection domain. Every object made from it shares it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/os/fork.h"
#include "nd/types.h"
#include "provider/verbs/nldev.h"

namespace nd::provider::verbs {

class Maker;

struct Context {
  Context();
  ~Context();  // Does nothing in a forked child.

  // A child must not destroy an object of its parent, because both share the descriptors through which the
  // device would destroy it.
  bool forked() const { return process.InChild(); }
  // Runs `make` on a thread that lives as long as this context or the process, and waits for it. Kernels up
  // to 6.1 record the thread that created a queue pair as its owner and drop the record when that thread
  // ends. The broker connects no queue pair without an owner.
  void OnLastingThread(const std::function<void()>& make);
  // Nldev::CheckQpOwner() for this process.
  Status CheckOwn(std::uint32_t qp_number);
  // Reads the asynchronous events of the device and marks a completion queue that overran as lost. Never
  // blocks.
  void DrainAsyncEvents();

  ibv_context* device = nullptr;
  ibv_pd* pd = nullptr;
  std::uint8_t port = 1;
  std::uint32_t device_index = 0;  // The kernel's.
  bool iwarp = false;
  bool windows = false;
  AdapterInfo info;
  os::ForkMark process;
  std::atomic<std::uint32_t> next_generation{1};

 private:
  std::unique_ptr<Maker>
      maker_;  // Made when a thread other than the first one of the process creates a queue pair.
  std::mutex making_;
  Nldev nldev_;
  std::mutex asking_;
};

}  // namespace nd::provider::verbs
