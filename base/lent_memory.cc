// SPDX-License-Identifier: Apache-2.0
#include "base/lent_memory.h"

#include <atomic>

namespace nd {
namespace {

std::atomic<MemoryLender> the_lender{nullptr};

}  // namespace

void SetMemoryLender(MemoryLender lender) {
  the_lender.store(lender, std::memory_order_release);
}

std::optional<os::MemfdBehind> FindLentMemory(const void* address, std::size_t length) {
  const MemoryLender lender = the_lender.load(std::memory_order_acquire);
  return lender == nullptr ? std::nullopt : lender(address, length);
}

}  // namespace nd
