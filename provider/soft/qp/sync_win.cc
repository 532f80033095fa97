// SPDX-License-Identifier: Apache-2.0
// Windows has a barrier for the threads of one process only (FlushProcessWriteBuffers). Every process
// therefore makes a whole fence behind each publication, and a sleeper needs only its own.
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {

// The caller makes the fences itself.
bool RegisterProcessBarrier() {
  return false;
}

bool ProcessBarrier() {
  return false;
}

bool RegisterGlobalBarrier() {
  return false;
}

bool GlobalBarrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

}  // namespace nd::provider::soft
