// SPDX-License-Identifier: Apache-2.0
// The barriers need the operating system; the rest of sync.h is inline.
#include "provider/soft/qp/sync.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nd::provider::soft {

namespace {

int Membarrier(int command) {
  return static_cast<int>(syscall(SYS_membarrier, command, 0, 0));
}

bool Barrier(bool registered, int command) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return registered && Membarrier(command) == 0;
}

}  // namespace

bool RegisterProcessBarrier() {
  static const bool registered = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered;
}

bool ProcessBarrier() {
  return Barrier(RegisterProcessBarrier(), MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool RegisterGlobalBarrier() {
  static const bool registered = Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  return registered;
}

bool GlobalBarrier() {
  return Barrier(RegisterGlobalBarrier(), MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

}  // namespace nd::provider::soft
