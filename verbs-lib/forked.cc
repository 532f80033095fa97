// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/forked.h"

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/os/fork.h"

namespace nd::verbs_lib {
namespace {

std::atomic<const os::ForkMark*> first_use{nullptr};
std::atomic<bool> complained{false};

}  // namespace

void UseInThisProcess() {
  if (first_use.load(std::memory_order_acquire) != nullptr) return;
  auto* mark = new os::ForkMark;
  const os::ForkMark* none = nullptr;
  if (!first_use.compare_exchange_strong(none, mark)) delete mark;
}

bool InForkedChild() {
  const os::ForkMark* mark = first_use.load(std::memory_order_acquire);
  return mark != nullptr && mark->InChild();
}

bool RefuseInForkedChild() {
  if (!InForkedChild()) return false;
  if (!complained.exchange(true)) {
    std::fputs(
        "ndbroker: no RDMA in this process: it was forked after its parent had used RDMA; call exec first, "
        "or "
        "fork before\n",
        stderr);
  }
  errno = ENODEV;
  return true;
}

}  // namespace nd::verbs_lib
